#ifndef LOWGEAR_H
#define LOWGEAR_H

/* Lowgear's client library: a training process calls it so that its GPU's clocks follow a plan, and so that its time
 * and energy are recorded.
 *
 *   lowgear_client* client = NULL;
 *   lowgear_options options = LOWGEAR_OPTIONS_INIT;
 *   if (lowgear_open(&options, &client) != LOWGEAR_OK) { fprintf(stderr, "%s\n", lowgear_last_error()); return 1; }
 *   lowgear_load_plan(client, "plans/00000.json", pp_rank, 0);
 *   for (...) {
 *     lowgear_iteration_begin(client);
 *     ...
 *     lowgear_unit_begin(client, LOWGEAR_FORWARD, stage, microbatch);
 *     forward(...);
 *     lowgear_unit_end(client, LOWGEAR_FORWARD, stage, microbatch);
 *     ...
 *     lowgear_iteration_end(client);
 *   }
 *   lowgear_close(client);
 *
 * Clocks are set by the agent of the node (lowgear agent). Where no agent runs, or it refuses, everything works all the
 * same but for the clocks: the library then only measures; lowgear_get_status says so.
 *
 * With a server (lowgear serve) no plan is loaded: the library registers the job, reports what iterations take, and has
 * the agent follow each plan of the server from the iteration that it begins with. While the server is away the last
 * plan is followed.
 *
 * Threads: one training thread per client calls iteration and unit functions, which make no system call, allocate
 * nothing and never wait, and also lowgear_expect and lowgear_use_stream. (Several may, never two at a time.) The other
 * functions may be called from any thread, but not while lowgear_close runs.
 * Streams: after lowgear_use_stream a mark is also work for the GPU, and costs what the driver takes for a launch.
 * Fork: in a child every call on the parent's client does nothing and answers LOWGEAR_FORKED.
 * A null client is allowed everywhere and does nothing. No call ends the process, throws or raises a signal. */

/* NOLINTBEGIN: this header is C */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this interface. A library works with every program that was built with the same major version and no later
 * minor one: structures carry their size, functions are only added. */
#define LOWGEAR_ABI_MAJOR 1u
#define LOWGEAR_ABI_MINOR 6u

#if defined(__GNUC__)
#define LOWGEAR_API __attribute__((visibility("default")))
#else
#define LOWGEAR_API
#endif

typedef struct lowgear_client lowgear_client;

/* Result of a call. */
enum {
  LOWGEAR_OK = 0,
  LOWGEAR_INVALID = 1,  /* an argument or a file is invalid; lowgear_last_error says why */
  LOWGEAR_FAILED = 2,   /* the system or the GPU refused */
  LOWGEAR_REFUSED = 3,  /* the agent refused */
  LOWGEAR_NO_AGENT = 4, /* there is no agent to do it */
  LOWGEAR_FORKED = 5    /* the client belongs to the parent process */
};

/* Kinds of units of computation. */
enum {
  LOWGEAR_FORWARD = 0,
  LOWGEAR_BACKWARD = 1,
  LOWGEAR_INPUT_GRADIENT = 2,  /* the part of a split backward pass that the previous stage waits for */
  LOWGEAR_WEIGHT_GRADIENT = 3, /* the part that no rank waits for */
  /* Since 1.2. The forward of one microbatch and the backward of another in one. It is recorded, and no schedule or
   * plan has it. */
  LOWGEAR_FORWARD_BACKWARD = 4,
  /* Since 1.4. A forward that is repeated before its backward begins, and a whole backward that repeats it itself. */
  LOWGEAR_RECOMPUTATION = 5,
  LOWGEAR_RECOMPUTING_BACKWARD = 6
};

/* Since 1.2. As the microbatch of a unit that begins: the next one, counted for each kind and stage from 0 in every
 * iteration. Of a unit that ends: the one of this kind and stage that began so last. */
#define LOWGEAR_NEXT UINT32_MAX

typedef struct lowgear_options {
  size_t struct_size; /* sizeof(lowgear_options); LOWGEAR_OPTIONS_INIT sets it */

  /* Socket of the agent. NULL: LOWGEAR_AGENT_SOCKET, or /run/lowgear/lease.sock. An empty text: use no agent. */
  const char* agent_socket;
  /* UUID or PCI address of this process' GPU. NULL: the one that CUDA_VISIBLE_DEVICES and the local rank name. */
  const char* gpu;
  /* Name of the job, for display. NULL: LOWGEAR_JOB, the scheduler's job id, or empty. */
  const char* job;
  /* Folder in which the recording of this rank is made, as rank-00000. NULL: LOWGEAR_RECORDING, or no recording. */
  const char* recording;
  /* -1: from torchrun, Slurm, Open MPI or MPICH. */
  int32_t rank;
  int32_t local_rank;
  int32_t world_size;

  /* Since 1.1. Address of the server: http://host:port, https://host:port or unix:/path; or several with commas between
   * them, among which it is looked for when it moves. NULL: LOWGEAR_SERVER, or no server. An empty text: no server. Of
   * https, LOWGEAR_SERVER_CA_FILE names the authorities to trust. */
  const char* server;
  /* File that holds the server's token for training, and nothing else. NULL: LOWGEAR_SERVER_TOKEN_FILE, or no token. */
  const char* token_file;
  /* The job as JSON, the same on all ranks: body of POST /v1/jobs (docs/server-api.md). `run` may be left out where
   * LOWGEAR_RUN, Slurm or torchrun tell one start of a job from the next, `gpu` where the GPU's name will do. NULL:
   * LOWGEAR_JOB_SPEC. A server needs it. */
  const char* job_spec;
  /* This rank's place in the job: in the pipeline, among replicas, and among ranks that share layers. -1:
   * LOWGEAR_PP_RANK, LOWGEAR_DP_RANK and LOWGEAR_TP_RANK, or by rank_order and job_spec. */
  int32_t pp_rank;
  int32_t dp_rank;
  int32_t tp_rank;

  /* Since 1.2. How the job numbers its ranks: "megatron", "deepspeed", or axes from that of neighbouring ranks on, such
   * as "tp-cp-ep-dp-pp", with sizes where nothing else tells them: "tp2-cp1-pp4-dp2". NULL: LOWGEAR_RANK_ORDER. */
  const char* rank_order;
} lowgear_options;

#define LOWGEAR_OPTIONS_INIT \
  { sizeof(lowgear_options), NULL, NULL, NULL, NULL, -1, -1, -1, NULL, NULL, NULL, -1, -1, -1, NULL }

/* Opens a client for this process. Takes up to a second: it finds the GPU and requests a lease from the agent. */
LOWGEAR_API int lowgear_open(const lowgear_options* options, lowgear_client** client);
/* Ends the lease, waits until the recording is written, and frees the client. */
LOWGEAR_API int lowgear_close(lowgear_client* client);

/* Since 1.6. What ends this process, to be called before lowgear_close: the type of an exception, without its text,
 * which may hold secrets; cut at 200 bytes. Server and `lowgear run` say then that the rank failed. NULL: nothing. */
LOWGEAR_API int lowgear_set_failure(lowgear_client* client, const char* failure);
/* Since 1.6. Closes the client when this process exits: unless a failure was set, an exit status other than 0 is one.
 */
LOWGEAR_API int lowgear_close_at_exit(lowgear_client* client);

/* Use the nearest supported clock below one that the GPU does not have. */
#define LOWGEAR_PLAN_NEAREST_BELOW 1u

/* Hands a plan (lowgear.plan/1) to the agent. `plan_rank` is which of the plan's ranks this process is. -1: the first
 * that tells of pp_rank; rank_order; the sizes of job_spec where one alone is above 1; a job of one process; a plan of
 * one rank, or of as many as the job has. Where none does, LOWGEAR_INVALID: another stage's clocks would be followed.
 * May be called again for another plan. A lease that the administrator has ended is taken again by this call alone.
 * LOWGEAR_INVALID where lowgear_expect_lengths was called with a profile. */
LOWGEAR_API int lowgear_load_plan(lowgear_client* client, const char* path, int32_t plan_rank, uint32_t flags);

/* Iterations are numbered from 0, or continue from the number of lowgear_iteration_begin_at. */
LOWGEAR_API int lowgear_iteration_begin(lowgear_client* client);
/* Since 1.2. Begins the iteration of this number: the framework's own, the same on all ranks, 1,000,000,000 at most
 * (LOWGEAR_INVALID; no iteration begins then). A plan that waits for an iteration is followed from the first one of
 * that number or a higher one. A number at or below an earlier one says that training has gone back to a checkpoint:
 * the plan in force stays, repeated iterations are recorded as a part of their own, and are not reported to the
 * server again, which knows each iteration once. */
LOWGEAR_API int lowgear_iteration_begin_at(lowgear_client* client, uint64_t number);
/* An iteration that has not ended when the next one begins, as an exception has cut it off, counts nowhere. */
LOWGEAR_API int lowgear_iteration_end(lowgear_client* client);
/* Since 1.4. To be called by the training thread right before it begins an iteration, by programs that let the server
 * stagger jobs, so that the power of all of them swings less: waits if the server asks this rank to, at most a tenth of
 * an iteration, and returns at once otherwise. Programs that do not call it are not staggered. */
LOWGEAR_API int lowgear_stagger(lowgear_client* client);
/* One computation begins or ends. `stage` is the virtual stage, both numbers count from 0. Since 1.2 two units may be
 * open at once. One that begins as a third or twice, ends without having begun, or has not ended when the next
 * iteration begins, is counted as mismatched and not recorded. */
LOWGEAR_API int lowgear_unit_begin(lowgear_client* client, uint32_t kind, uint32_t stage, uint32_t microbatch);
LOWGEAR_API int lowgear_unit_end(lowgear_client* client, uint32_t kind, uint32_t stage, uint32_t microbatch);

/* Since 1.2. A unit that is expected. */
typedef struct lowgear_unit {
  uint32_t kind;
  uint32_t stage;
  uint32_t microbatch;
} lowgear_unit;

/* Differences are counted, and plans are followed all the same. */
#define LOWGEAR_EXPECT_COUNT_ONLY 1u

/* Since 1.2. The units that this rank begins in every iteration, in order, from the next iteration on. They are copied.
 * A mark that differs, or an iteration that ends early, is kept in the status and counted, once an iteration; the first
 * one ends following plans as lowgear_refuse does, unless the flags say otherwise. `count` 0: nothing is expected any
 * more. */
LOWGEAR_API int lowgear_expect(lowgear_client* client, const lowgear_unit* units, size_t count, uint32_t flags);

/* Since 1.5. Jobs whose iterations differ because documents do: where the lengths of an iteration are told before it
 * begins, a thread of the library predicts its units' times, and has the agent run it at clocks of its own, with which
 * this replica ends when the longest one does at full clocks. An iteration whose lengths are not told, told too late,
 * changed after they were told, do not add up or are beyond those of the fit runs at full clocks, the highest of the
 * profile; standard error says why, the same reason once. Before the first plan no clock is requested. No call waits.
 */
enum { LOWGEAR_CLOCKS_PER_UNIT = 0, LOWGEAR_CLOCKS_PER_REPLICA = 1 };

typedef struct lowgear_lengths_options {
  size_t struct_size;   /* LOWGEAR_LENGTHS_OPTIONS_INIT sets it */
  const char* profile;  /* file that lowgear profile has written; NULL: lengths are only recorded, in lengths.csv */
  const char* work;     /* times by length; NULL: next to the profile */
  const char* schedule; /* the order of every rank as PyTorch's CSV */
  int32_t pp_rank;      /* of this process in the pipeline */
  int32_t replica;      /* of this process */
  int32_t replicas;     /* of the job */
  int32_t clocks_per;   /* whether each unit has a clock, or a replica one for the iteration */
} lowgear_lengths_options;

#define LOWGEAR_LENGTHS_OPTIONS_INIT \
  { sizeof(lowgear_lengths_options), NULL, NULL, NULL, 0, 0, 1, LOWGEAR_CLOCKS_PER_UNIT }

/* To be called once, by the training thread between two iterations, where neither a server plans the job nor a plan is
 * loaded: LOWGEAR_INVALID where one of them does and a profile is named, or where a file cannot be read or is not of
 * this schedule. */
LOWGEAR_API int lowgear_expect_lengths(lowgear_client* client, const lowgear_lengths_options* options);

/* Since 1.5. What the times of a microbatch's units depend on: the lengths of its documents. */
typedef struct lowgear_amounts {
  double tokens;
  double squared_tokens; /* the squared lengths of its documents, summed */
} lowgear_amounts;

/* Since 1.5. The lengths of one replica's microbatches in the iteration of this number. Every process tells those of
 * all replicas, the same on all. Those of an iteration that has begun are only recorded. LOWGEAR_INVALID where no
 * lengths are expected, there is no such replica, or 1024 iterations wait. */
LOWGEAR_API int lowgear_tell_lengths(lowgear_client* client, uint64_t iteration, uint32_t replica,
                                     const lowgear_amounts* microbatches, size_t count);

/* Since 1.2. No plan is followed any more, for the life of this client: the GPU is given back to the agent, so that its
 * clocks are free; marks, recording and reports continue, and the server shows the reason. The first reason is kept.
 * lowgear_load_plan answers LOWGEAR_REFUSED from now on. */
LOWGEAR_API int lowgear_refuse(lowgear_client* client, const char* reason);
/* Since 1.2. The same for a while: until lowgear_follow_again, which asks the agent for the GPU again. The server's
 * plan is then followed from the iteration that the server names; one that was loaded has to be loaded again. After
 * lowgear_refuse there is no way back: lowgear_follow_again answers LOWGEAR_REFUSED. */
LOWGEAR_API int lowgear_stop_following(lowgear_client* client);
LOWGEAR_API int lowgear_follow_again(lowgear_client* client);

/* Since 1.3. A decision of the program about how the job runs. */
typedef struct lowgear_decision {
  size_t struct_size;        /* sizeof(lowgear_decision) */
  uint64_t from_iteration;   /* the first iteration that runs as it says */
  const char* technique;     /* what decides: a word of 1 to 32 characters of a-z, 0-9 and _, such as "freezing" */
  const char* change;        /* a word, such as "adopt" */
  const char* configuration; /* how the job runs from then on: "6 of 24 blocks frozen"; cut at 200 bytes */
  const char* reason;        /* for a person; cut at 1000 bytes */
} lowgear_decision;

/* Since 1.3. Reports a decision to the server, which keeps it with the job and shows it. One rank of the job reports.
 * Returns at once; while the server is away the newest 1000 decisions wait. Without a server nothing happens. */
LOWGEAR_API int lowgear_report_decision(lowgear_client* client, const lowgear_decision* decision);
/* Since 1.3. The job's work from now on, for the server: layers of the model, how many of them are frozen, and
 * the precision in which most is computed, as a word: "bf16". */
LOWGEAR_API int lowgear_report_work(lowgear_client* client, uint32_t layers, uint32_t frozen_layers,
                                    const char* precision);

/* Since 1.2. Marks from now on count when the GPU comes to them on this stream (a CUstream; (void*)1 is the default
 * stream), not when they are made: the driver is asked to write a number after the work so far, and a thread of the
 * library passes the mark on when it sees the number. Cheap where the stream has been named before, 256 of them at
 * most. NULL: marks are the host's again, after a wait of at most 2 s for those that the GPU has not come to. Needs
 * libcuda.so.1 and a context of the calling thread; where it does not work marks are the host's, and the status says
 * why. */
LOWGEAR_API int lowgear_use_stream(lowgear_client* client, void* cu_stream);

/* Use of the GPU between two moments. Values that it does not report are negative, as is the energy when it did not
 * report it all the time. */
typedef struct lowgear_measurement {
  size_t struct_size; /* set by the caller */
  double time_s;
  double energy_j;
  double energy_uncertainty_j; /* +-: a bound by the counter's steps (every 100 ms on an H100), or of power readings */
  double mean_power_w;
  double peak_power_w;
  double mean_sm_clock_mhz;
  double power_capped_s; /* time during which the power limit throttled the GPU */
  int32_t max_temperature_c;
  int32_t simulated; /* 1: the GPU is Lowgear's simulation */
  int32_t by_power;  /* 1: the energy is that of power readings, as there is no counter or it cannot be right */
  char problem[256]; /* why something is missing, or why the counter is not used; empty when nothing is */
} lowgear_measurement;

#define LOWGEAR_MEASUREMENT_INIT \
  { sizeof(lowgear_measurement), -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, "" }

/* Starts to measure. Windows may overlap. */
LOWGEAR_API int lowgear_window_begin(lowgear_client* client, const char* name, uint64_t* window);
/* Ends the window and returns its measurement. */
LOWGEAR_API int lowgear_window_end(lowgear_client* client, uint64_t window, lowgear_measurement* measurement);

typedef struct lowgear_status {
  size_t struct_size; /* set by the caller */
  int32_t rank;
  int32_t world_size;
  int32_t has_lease;            /* 1: an agent sets this GPU's clocks for this process */
  int32_t has_plan;             /* 1: the agent follows a plan */
  int32_t suspended;            /* 1: no clock is set now, because no unit began for some time */
  int32_t dry_run;              /* 1: the agent only logs its writes */
  int32_t simulated;            /* 1: the GPU is Lowgear's simulation */
  uint32_t requested_clock_mhz; /* last SM clock that the agent requested; 0: the driver's default */
  uint64_t units;               /* units recorded or counted so far */
  uint64_t mismatched;          /* begins and ends that did not match */
  uint64_t lost;                /* units that could not be recorded as the disk was too slow; marks of a stream */
  uint64_t reconnects;          /* leases taken again after they had ended */
  char gpu_uuid[96];            /* empty: no GPU */
  char problem[256];            /* what does not work, as a message; empty: nothing */
  /* Since 1.1. */
  int32_t server_connected; /* 1: the server answered the last request */
  int32_t plan_version;     /* of the server's plan that the newest iteration followed from its begin; 0: none */
  uint64_t reports_lost;    /* iterations that were not reported, as the server was not reachable for too long */
  char server_problem[256]; /* why the server does not plan this rank, as a message; empty: no problem */
  /* Since 1.2. */
  int32_t pp_rank;               /* this rank in the pipeline; -1: not certain */
  int32_t stage;                 /* the only stage of this rank; -1: not certain, or it has several */
  char place[256];               /* how they are known; or why they are not, and what to pass */
  int32_t following;             /* 0: plans are not followed, as not_following says */
  int32_t stream_marks;          /* 1: marks count when the GPU comes to them; 0: when they are made */
  uint64_t differing_iterations; /* that ran other units than lowgear_expect named */
  char not_following[256];       /* why, for a person; empty: plans are followed where there are any */
  char difference[256];          /* the first one: "iteration 12, unit 5: expected backward 3 of stage 1, got ..." */
  char stream_problem[256];      /* why marks are the host's although a stream was named, or which marks were lost */
  /* Since 1.3. */
  uint64_t decisions_waiting; /* reported decisions that the server does not have yet */
  uint64_t decisions_lost;    /* that it will not get: it refuses them, or was away for too long */
} lowgear_status;

LOWGEAR_API int lowgear_get_status(lowgear_client* client, lowgear_status* status);

/* Since 1.3. Kinds of operating points of a search: SM clocks in MHz, or power limits in W. Where a power limit
 * does not bind it changes nothing; a locked clock always does. */
enum { LOWGEAR_POINTS_CLOCK = 0, LOWGEAR_POINTS_POWER_LIMIT = 1 };

typedef struct lowgear_search_options {
  size_t struct_size;  /* LOWGEAR_SEARCH_OPTIONS_INIT sets it */
  double slowdown_pct; /* how much longer than at the first point an iteration may take, 0 to 1000 */
  int32_t points;
  const double* values; /* of the points, full speed first; NULL: up to six that the library chooses */
  size_t count;
  double block_s;         /* least time for which a point is measured at once; 0: 30 */
  int32_t max_iterations; /* 0: 300, or as many as 30 blocks take */
  const char* record;     /* file to which observations and decisions are appended; NULL: none */
} lowgear_search_options;

#define LOWGEAR_SEARCH_OPTIONS_INIT \
  { sizeof(lowgear_search_options), 0, LOWGEAR_POINTS_CLOCK, NULL, 0, 0, 0, NULL }

/* Since 1.3. Searches the operating point at which the job's iterations use least energy within the slowdown, while it
 * trains, and has it run there until lowgear_close. To be called once by every rank, after which no plan is followed
 * any more; the first rank measures the GPUs of all and sets them through the agent (its HTTP socket:
 * LOWGEAR_AGENT_HTTP_SOCKET, or agent.sock next to the lease socket), which restores them when the process ends. All
 * ranks have to be on one node. Iterations are those that this rank marks. Called again, it begins anew. One that
 * `lowgear run --search` asks for (LOWGEAR_SEARCH) begins in lowgear_open, and says on standard error what becomes of
 * it. LOWGEAR_INVALID where it cannot begin: an option, a server that plans the job, a GPU without an energy counter.
 */
LOWGEAR_API int lowgear_search_begin(lowgear_client* client, const lowgear_search_options* options);

/* State of a search. */
enum {
  LOWGEAR_SEARCH_OFF = 0,      /* none has begun */
  LOWGEAR_SEARCH_WAITING = 1,  /* for the GPUs, or the first iterations */
  LOWGEAR_SEARCH_RUNNING = 2,  /* points are tried */
  LOWGEAR_SEARCH_FOUND = 3,    /* the job runs at the point that was found */
  LOWGEAR_SEARCH_NONE = 4,     /* no point is shown to save energy: the GPUs' settings are their own */
  LOWGEAR_SEARCH_CUT_OFF = 5,  /* it could not be searched to its end: likewise */
  LOWGEAR_SEARCH_ELSEWHERE = 6 /* the job's first rank searches */
};

typedef struct lowgear_search {
  size_t struct_size; /* set by the caller */
  int32_t state;
  int32_t points;
  double value;            /* at which the job runs now, in MHz or W; 0: the GPUs' own choice */
  double energy_pct;       /* of the point that was found, against the first; below 0: it saves. 0 before */
  double energy_error_pct; /* half the width of its 99 % interval */
  double slowdown_pct;
  double slowdown_error_pct;
  int64_t iterations; /* observed so far */
  double cost_time_s; /* what searching took more than as many iterations at the first point; below 0: less */
  double cost_energy_j;
  char reason[512]; /* the newest decision with its numbers, or the condition that it waits for */
} lowgear_search;

LOWGEAR_API int lowgear_get_search(lowgear_client* client, lowgear_search* search);

/* Message of this thread's last failed call; "" if none failed. Valid until this thread's next call. */
LOWGEAR_API const char* lowgear_last_error(void);
/* Major version in the upper 16 bits, minor version in the lower. */
LOWGEAR_API uint32_t lowgear_abi_version(void);

#ifdef __cplusplus
}
#endif
/* NOLINTEND */

#endif
