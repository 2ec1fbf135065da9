#ifndef LOWGEAR_PLANNING_LIBRARY_H
#define LOWGEAR_PLANNING_LIBRARY_H

/* The interface of liblowgear_planning.so, for C and for what can call C: planning and estimating as one function from
 * a JSON document to another. Any number of threads may call at once. */

#define LOWGEAR_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The version of Lowgear, such as "0.1.0". */
LOWGEAR_API const char* lowgear_version(void);

/* Runs a verb of the command line (`plan`, `estimate` ...). Request and reply are JSON documents in UTF-8, as
 * app/cli/call/call.h describes them. Returns at the next report of progress after another thread has set *cancelled to
 * anything but 0. The reply is to be given to lowgear_free; it is a null pointer where there is no memory for it. */
LOWGEAR_API char* lowgear_call(const char* verb, const char* request, int* cancelled);
LOWGEAR_API void lowgear_free(char* reply);

#ifdef __cplusplus
}
#endif

#endif
