// For compilers like GCC 12.2, whose _tile_loadconfig claims to read 8 bytes of its 64: the writes
// of the others are dropped as dead, a tile has no rows then, and the first load into it traps.
// Here the instruction is said to read them all, as it does.
#ifdef __AMX_TILE__
#include <immintrin.h>

static inline void load_whole_tile_config(const void *config) {
    typedef char whole[64];
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const whole *)config));
}
#define _tile_loadconfig load_whole_tile_config
#endif
