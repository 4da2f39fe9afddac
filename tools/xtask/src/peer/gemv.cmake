# Adds our program to llama.cpp's own build, behind its libraries: it links what the others link.
set(GEMV_SOURCE "${CMAKE_CURRENT_LIST_DIR}/gemv.cpp")
cmake_language(DEFER CALL add_executable ggml-gemv "${GEMV_SOURCE}")
cmake_language(DEFER CALL target_link_libraries ggml-gemv PRIVATE ggml)
