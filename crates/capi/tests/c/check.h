/* A failed check names itself and ends the program. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softtimers.h"

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* Longer than any machine sleeps: a test that waits for it has failed. */
#define PATIENCE_NS UINT64_C(30000000000)
#define MS UINT64_C(1000000)
