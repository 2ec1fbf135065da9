/* The C interface as a C program sees it: compiled as C99, linked with liblowgear.so, without agent and GPU. */
#include <stdio.h>
#include <string.h>

#include "client/lowgear.h"

static int failures = 0;

static void expect(int condition, const char* what) {
  if (!condition) {
    printf("failed: %s (%s)\n", what, lowgear_last_error());
    ++failures;
  }
}

int main(void) {
  lowgear_options options = LOWGEAR_OPTIONS_INIT;
  lowgear_client* client = NULL;
  lowgear_status status;
  lowgear_measurement measurement = LOWGEAR_MEASUREMENT_INIT;
  uint64_t window = 0;
  lowgear_search_options wanted = LOWGEAR_SEARCH_OPTIONS_INIT;
  lowgear_search search;
  const lowgear_unit unit = {LOWGEAR_FORWARD, 0, 0};
  lowgear_decision decision = {sizeof(lowgear_decision), 12, "freezing", "adopt", "6 of 24 blocks frozen", NULL};
  options.agent_socket = "";
  options.rank = 0;
  options.world_size = 1;
  expect(lowgear_abi_version() >> 16 == LOWGEAR_ABI_MAJOR, "version");
  expect(lowgear_open(&options, &client) == LOWGEAR_OK, "open");
  expect(lowgear_stagger(client) == LOWGEAR_OK, "without a server nothing is waited for");
  expect(lowgear_iteration_begin(client) == LOWGEAR_OK, "iteration begins");
  expect(lowgear_unit_begin(client, LOWGEAR_FORWARD, 0, 0) == LOWGEAR_OK, "unit begins");
  expect(lowgear_unit_end(client, LOWGEAR_FORWARD, 0, 0) == LOWGEAR_OK, "unit ends");
  expect(lowgear_iteration_end(client) == LOWGEAR_OK, "iteration ends");
  expect(lowgear_iteration_begin_at(client, 7) == LOWGEAR_OK, "iteration of a number");
  expect(lowgear_unit_begin(client, LOWGEAR_FORWARD_BACKWARD, 0, LOWGEAR_NEXT) == LOWGEAR_OK, "next microbatch");
  expect(lowgear_unit_end(client, LOWGEAR_FORWARD_BACKWARD, 0, LOWGEAR_NEXT) == LOWGEAR_OK, "and its end");
  expect(lowgear_iteration_end(client) == LOWGEAR_OK, "ends");
  expect(lowgear_expect(client, &unit, 1, LOWGEAR_EXPECT_COUNT_ONLY) == LOWGEAR_OK, "expect");
  expect(lowgear_stop_following(client) == LOWGEAR_OK && lowgear_follow_again(client) == LOWGEAR_OK, "stop and again");
  expect(lowgear_refuse(client, "a reason") == LOWGEAR_OK, "refuse");
  expect(lowgear_follow_again(client) == LOWGEAR_REFUSED, "for good");
  expect(lowgear_use_stream(client, NULL) == LOWGEAR_OK, "marks of the host");
  expect(lowgear_report_decision(client, &decision) == LOWGEAR_OK, "a decision without a server");
  decision.technique = "Not a word";
  expect(lowgear_report_decision(client, &decision) == LOWGEAR_INVALID, "no word");
  expect(lowgear_report_decision(client, NULL) == LOWGEAR_INVALID, "no decision");
  expect(lowgear_set_failure(client, "RuntimeError") == LOWGEAR_OK, "failure");
  expect(lowgear_set_failure(client, NULL) == LOWGEAR_OK, "no failure");
  expect(lowgear_report_work(client, 24, 6, "bf16") == LOWGEAR_OK, "work");
  expect(lowgear_report_work(client, 24, 25, "bf16") == LOWGEAR_INVALID, "more than all layers");
  expect(lowgear_report_work(client, UINT32_MAX, 0, NULL) == LOWGEAR_INVALID, "no work");
  expect(lowgear_load_plan(client, "/no/such/plan", -1, 0) == LOWGEAR_INVALID, "no plan");
  expect(strstr(lowgear_last_error(), "/no/such/plan") != NULL, "names the file");
  expect(lowgear_window_begin(client, "w", &window) == LOWGEAR_FAILED, "no GPU to measure");
  expect(measurement.energy_j < 0, "initialiser");
  memset(&search, 0, sizeof search);
  search.struct_size = sizeof search;
  expect(lowgear_search_begin(client, &wanted) == LOWGEAR_INVALID, "no agent to set an operating point");
  expect(lowgear_last_error()[0] != '\0', "says so");
  expect(lowgear_get_search(client, &search) == LOWGEAR_OK && search.state == LOWGEAR_SEARCH_OFF,
         "nothing is searched");
  wanted.points = 7;
  expect(lowgear_search_begin(client, &wanted) == LOWGEAR_INVALID, "no such points");
  search.struct_size = 0;
  expect(lowgear_get_search(client, &search) == LOWGEAR_INVALID, "a size is needed");
  memset(&status, 0, sizeof status);
  status.struct_size = sizeof status;
  expect(lowgear_get_status(client, &status) == LOWGEAR_OK, "status");
  expect(status.following == 0 && strcmp(status.not_following, "a reason") == 0, "says why");
  expect(status.decisions_waiting == 0 && status.decisions_lost == 0, "none is kept for no server");
  expect(status.stream_marks == 0 && status.differing_iterations == 0 && status.difference[0] == '\0', "no stream");
  expect(status.units == 2 && status.mismatched == 0, "counts");
  expect(status.problem[0] != '\0', "says that there is no GPU");
  expect(status.server_connected == 0 && status.plan_version == 0 && status.server_problem[0] == '\0', "no server");
  expect(status.pp_rank == 0 && status.stage == 0, "one process is the whole pipeline");
  expect(lowgear_close(client) == LOWGEAR_OK, "close");
  options.rank = 3;
  options.world_size = 8;
  expect(lowgear_open(&options, &client) == LOWGEAR_OK, "open as one of eight");
  expect(lowgear_get_status(client, &status) == LOWGEAR_OK && status.pp_rank == -1 && status.stage == -1, "unknown");
  expect(strstr(status.place, "pp_rank") != NULL, "says what to pass");
  expect(lowgear_close(client) == LOWGEAR_OK, "close");
  options.rank_order = "tp2-dp1-pp";
  expect(lowgear_open(&options, &client) == LOWGEAR_OK, "open with an order of ranks");
  expect(lowgear_get_status(client, &status) == LOWGEAR_OK && status.pp_rank == 1 && status.stage == 1, "known");
  expect(lowgear_close(client) == LOWGEAR_OK, "close");
  options.rank_order = "sideways";
  expect(lowgear_open(&options, &client) == LOWGEAR_INVALID, "no order");
  options = (lowgear_options)LOWGEAR_OPTIONS_INIT;
  options.agent_socket = "";
  options.rank = 0;
  options.world_size = 1;
  options.server = "unix:/no/such/server";
  expect(lowgear_open(&options, &client) == LOWGEAR_INVALID, "a server needs a job");
  expect(strstr(lowgear_last_error(), "job_spec") != NULL, "says so");
  options.job_spec = "{\"run\": \"r\"}";
  options.server = "nonsense";
  expect(lowgear_open(&options, &client) == LOWGEAR_INVALID, "no address");
  options.server = "unix:/no/such/server";
  expect(lowgear_open(&options, &client) == LOWGEAR_OK, "a server that is away");
  lowgear_iteration_begin(client);
  lowgear_iteration_end(client);
  expect(lowgear_get_status(client, &status) == LOWGEAR_OK && status.server_connected == 0, "is away");
  expect(lowgear_close(client) == LOWGEAR_OK, "close without it");
  return failures == 0 ? 0 : 1;
}
