/* `--lowgear=plan=DIR,slowdown=2%` of srun, sbatch and salloc, by Slurm's SPANK interface. It reaches the tasks as the
 * variable LOWGEAR_SLURM, which the task prolog turns into what `lowgear run` would set. Compile it on a machine with the
 * headers of your Slurm (Debian: libslurm-dev), and again after every upgrade to another release:
 *
 *   gcc -shared -fPIC -O2 -Wall -o spank_lowgear.so spank_lowgear.c
 */
#include <slurm/spank.h>
#include <stdlib.h>
#include <string.h>

SPANK_PLUGIN(lowgear, 1)

enum { kLongest = 4096 };

static const char kVariable[] = "LOWGEAR_SLURM";
static const char* const kNames[] = {"plan=",   "server=", "record=",        "slowdown=",      "points=",
                                     "search,", "off,",    "switch-latency=", "search-record="};

/* What --lowgear asks for; empty where it is not there. SPANK gives the callback of an option no place of its own. */
static char options[kLongest];

/* Whether a word of the list, with the comma after it, begins with a name; one that needs a value has one. */
static int is_known(const char* word) {
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    const size_t length = strlen(kNames[i]);
    if (strncmp(word, kNames[i], length) != 0) continue;
    return kNames[i][length - 1] == ',' || word[length] != ',';
  }
  return 0;
}

static int take_options(int value, const char* text, int remote) {
  (void)value;
  if (text == NULL || strlen(text) + 2 > sizeof(options)) {
    slurm_error("lowgear: --lowgear is empty or longer than %d characters", kLongest);
    return ESPANK_BAD_ARG;
  }
  strcpy(options, text);
  strcat(options, ",");
  for (const char* word = options; !remote && *word != '\0'; word = strchr(word, ',') + 1) {
    if (is_known(word)) continue;
    slurm_error("lowgear: --lowgear=%s: '%.*s' is not right; write plan=DIR, server=ADDRESS, record=DIR or search, with "
                "slowdown=2%%, switch-latency=MS, points=KIND or search-record=FILE, separated by commas, or off",
                text, (int)(strchr(word, ',') - word), word);
    options[0] = '\0';
    return ESPANK_BAD_ARG;
  }
  options[strlen(text)] = '\0';
  return ESPANK_SUCCESS;
}

static struct spank_option option = {
    "lowgear",
    "plan=DIR,slowdown=2%",
    "let the GPUs' clocks follow a plan: plan=DIR, server=ADDRESS or search, slowdown=PERCENT%, record=DIR; or off",
    1,
    0,
    take_options};

/* A table of options, as SPANK also knows it, is for srun alone. */
int slurm_spank_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return ESPANK_SUCCESS;
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? ESPANK_SUCCESS : ESPANK_ERROR;
}

/* For the shell of salloc, and for jobs whose tasks get the submitter's variables. */
int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  if (options[0] == '\0' || spank_remote(spank)) return ESPANK_SUCCESS;
  return setenv(kVariable, options, 1) == 0 ? ESPANK_SUCCESS : ESPANK_ERROR;
}

/* On the node, before the task prolog; also with --export=NONE. */
int slurm_spank_user_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  if (options[0] == '\0' || !spank_remote(spank)) return ESPANK_SUCCESS;
  return spank_setenv(spank, kVariable, options, 1) == ESPANK_SUCCESS ? ESPANK_SUCCESS : ESPANK_ERROR;
}
