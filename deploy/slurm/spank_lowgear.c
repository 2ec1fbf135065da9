/* Adds the option `--lowgear=plan=DIR,slowdown=2%` to srun, sbatch and salloc through Slurm's SPANK interface. Tasks
 * get its value as the variable LOWGEAR_SLURM, and the task prolog sets the variables that `lowgear run` would set.
 * Compile the plugin on a machine with the headers of your Slurm (Debian: libslurm-dev), and again after every upgrade
 * to another release:
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

/* The value of --lowgear; empty without the option. Global, as SPANK passes no pointer to the option's callback. */
static char options[kLongest];

/* Returns whether the word begins with a known name and has a value if it needs one. A comma follows the word. */
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
    slurm_error("lowgear: --lowgear=%s: '%.*s' is not valid; write plan=DIR, server=ADDRESS, record=DIR or search, with "
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

/* Registers the option here, because SPANK reads a static table of options (spank_options) only for srun. */
int slurm_spank_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  const spank_context_t context = spank_context();
  if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) return ESPANK_SUCCESS;
  return spank_option_register(spank, &option) == ESPANK_SUCCESS ? ESPANK_SUCCESS : ESPANK_ERROR;
}

/* Sets the variable for the shell of salloc, and for jobs whose tasks inherit the submitter's environment. */
int slurm_spank_init_post_opt(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  if (options[0] == '\0' || spank_remote(spank)) return ESPANK_SUCCESS;
  return setenv(kVariable, options, 1) == 0 ? ESPANK_SUCCESS : ESPANK_ERROR;
}

/* Sets the variable on the node before the task prolog runs, also with --export=NONE. */
int slurm_spank_user_init(spank_t spank, int count, char** arguments) {
  (void)count;
  (void)arguments;
  if (options[0] == '\0' || !spank_remote(spank)) return ESPANK_SUCCESS;
  return spank_setenv(spank, kVariable, options, 1) == ESPANK_SUCCESS ? ESPANK_SUCCESS : ESPANK_ERROR;
}
