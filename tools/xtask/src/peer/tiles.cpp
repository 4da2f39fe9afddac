// Ends well unless the processor offers matrix tiles (AMX) that trap when used, as some virtual
// machines do. Built with -march=native.
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

int main() {
#ifdef __AMX_INT8__
    const int request_permission = 0x1023, tile_data = 18;
    if (syscall(SYS_arch_prctl, request_permission, tile_data) != 0) {
        return 0; // Refused politely: llama.cpp asks as well, and does without.
    }
    alignas(64) unsigned char config[64] = {1}; // Palette 1, and tile 0 of one row of 64 bytes.
    config[16] = 64;
    config[48] = 1;
    unsigned char row[64] = {};
    _tile_loadconfig(config);
    _tile_loadd(0, row, 64);
    _tile_release();
#endif
}
