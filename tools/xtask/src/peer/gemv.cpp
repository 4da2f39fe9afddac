// Runs ggml's GEMVs for a program that times its own beside them: one thread, one vector, through
// ggml's public interface, as llama.cpp decodes. It works when it is told to, by lines on stdin:
//
//   matrix TYPE ROWS COLUMNS COPIES    then the matrix as GGUF has it and the vector in f32, as
//                                      bytes; answers a line with the kinds of buffers whose
//                                      kernels take the type: plain ones, and those that repack
//   time BUFFER                        answers the CPU seconds of the products of all copies
//   product BUFFER                     answers the last copy's product, in f32, as bytes
//
// All copies of a kind of buffer are one graph, so that calls between products cost nothing.
// ggml quantises the vector for each of them.

#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml-cpu.h"
#include "ggml.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>
#include <strings.h>
#include <vector>

[[noreturn]] static void fail(const std::string & message) {
    std::cerr << "ggml-gemv: " << message << std::endl;
    std::exit(1);
}

// What is to be multiplied.
struct Task {
    ggml_type type;
    int64_t rows;
    int64_t columns;
    size_t copies;
    std::vector<char> matrix;
    std::vector<float> vector;
};

// All copies of a matrix in one kind of buffer, and their products with the vector.
struct Ring {
    ggml_context_ptr context;
    ggml_backend_buffer_ptr weights;
    ggml_backend_buffer_ptr floats;
    ggml_cgraph * graph = nullptr;
    ggml_tensor * last = nullptr;
};

static size_t padded(size_t bytes) {
    return GGML_PAD(bytes, 128);
}

// Gives `tensor` the next bytes of `buffer`, from `used` on.
static void place(ggml_backend_buffer_t buffer, ggml_tensor * tensor, size_t & used) {
    char * base = static_cast<char *>(ggml_backend_buffer_get_base(buffer));
    if (ggml_backend_tensor_alloc(buffer, tensor, base + used) != GGML_STATUS_SUCCESS) {
        fail("a tensor does not fit its buffer");
    }
    used += padded(ggml_backend_buffer_get_alloc_size(buffer, tensor));
}

// Whether the kernels of this kind of buffer take the product.
static bool supports(ggml_backend_dev_t device, ggml_backend_buffer_type_t kind, ggml_tensor * product) {
    ggml_backend_buffer_ptr empty(ggml_backend_buft_alloc_buffer(kind, 0));
    product->src[0]->buffer = empty.get();
    const bool takes = ggml_backend_dev_supports_op(device, product);
    product->src[0]->buffer = nullptr;
    return takes;
}

// Fills `ring`, or returns false where the kind of buffer has no kernel for it.
static bool fill(Ring & ring, ggml_backend_dev_t device, ggml_backend_buffer_type_t kind, const Task & task) {
    const size_t tensors = 2 * task.copies + 1;
    const size_t memory = tensors * ggml_tensor_overhead() + ggml_graph_overhead_custom(tensors, false);
    ring.context.reset(ggml_init({ memory, nullptr, true }));
    ggml_context * context = ring.context.get();

    ggml_tensor * vector = ggml_new_tensor_2d(context, GGML_TYPE_F32, task.columns, 1);
    std::vector<ggml_tensor *> products;
    ring.graph = ggml_new_graph_custom(context, tensors, false);
    for (size_t copy = 0; copy < task.copies; copy++) {
        ggml_tensor * matrix = ggml_new_tensor_2d(context, task.type, task.columns, task.rows);
        products.push_back(ggml_mul_mat(context, matrix, vector));
        ggml_build_forward_expand(ring.graph, products.back());
    }
    if (!supports(device, kind, products[0])) {
        return false;
    }

    ring.last = products.back();
    const size_t bytes = padded(ggml_backend_buft_get_alloc_size(kind, products[0]->src[0]));
    ring.weights.reset(ggml_backend_buft_alloc_buffer(kind, task.copies * bytes));
    const size_t outputs = task.copies * padded(ggml_nbytes(ring.last));
    ring.floats.reset(ggml_backend_buft_alloc_buffer(ggml_backend_cpu_buffer_type(), outputs + padded(ggml_nbytes(vector))));
    if (!ring.weights || !ring.floats) {
        fail("not enough memory");
    }
    ggml_backend_buffer_set_usage(ring.weights.get(), GGML_BACKEND_BUFFER_USAGE_WEIGHTS);

    size_t weights_used = 0;
    size_t floats_used = 0;
    place(ring.floats.get(), vector, floats_used);
    ggml_backend_tensor_set(vector, task.vector.data(), 0, ggml_nbytes(vector));
    for (ggml_tensor * product : products) {
        ggml_tensor * matrix = product->src[0];
        place(ring.weights.get(), matrix, weights_used);
        place(ring.floats.get(), product, floats_used);
        if (product == products[0]) {
            ggml_backend_tensor_set(matrix, task.matrix.data(), 0, task.matrix.size());
        } else {
            // Repacked already: all kinds of buffers of the CPU are plain memory.
            memcpy(matrix->data, products[0]->src[0]->data, bytes);
        }
    }
    return true;
}

static ggml_type type_named(const std::string & name) {
    for (int type = 0; type < GGML_TYPE_COUNT; type++) {
        const char * known = ggml_type_name(static_cast<ggml_type>(type));
        if (known != nullptr && strcasecmp(known, name.c_str()) == 0) {
            return static_cast<ggml_type>(type);
        }
    }
    fail("no type is called " + name);
}

static Task read_task(std::istream & words) {
    Task task;
    std::string type;
    if (!(words >> type >> task.rows >> task.columns >> task.copies) || task.copies == 0) {
        fail("matrix needs a type, rows, columns and copies");
    }
    task.type = type_named(type);
    task.matrix.resize(task.rows * ggml_row_size(task.type, task.columns));
    task.vector.resize(task.columns);
    std::cin.read(task.matrix.data(), task.matrix.size());
    std::cin.read(reinterpret_cast<char *>(task.vector.data()), task.columns * sizeof(float));
    if (!std::cin) {
        fail("the matrix ends early");
    }
    return task;
}

// CPU time of this thread: other programs may take turns without being counted.
static double seconds() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

// The plain kind, which all types have kernels for, and then those that repack.
static std::vector<ggml_backend_buffer_type_t> kinds_of_buffers(ggml_backend_dev_t device) {
    std::vector<ggml_backend_buffer_type_t> kinds = { ggml_backend_cpu_buffer_type() };
    void * found = ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(device), "ggml_backend_dev_get_extra_bufts");
    auto extra = reinterpret_cast<ggml_backend_dev_get_extra_bufts_t>(found);
    for (ggml_backend_buffer_type_t * kind = extra ? extra(device) : nullptr; kind && *kind; kind++) {
        kinds.push_back(*kind);
    }
    return kinds;
}

int main() {
    ggml_backend_ptr backend(ggml_backend_cpu_init());
    ggml_backend_cpu_set_n_threads(backend.get(), 1);
    ggml_backend_dev_t device = ggml_backend_get_device(backend.get());
    const auto kinds = kinds_of_buffers(device);

    std::vector<Ring> rings;
    const auto ring_of = [&](std::istream & words) -> Ring & {
        size_t index = 0;
        if (!(words >> index) || index >= rings.size()) {
            fail("no such buffer");
        }
        return rings[index];
    };
    for (std::string line; std::getline(std::cin, line);) {
        std::istringstream words(line);
        std::string command;
        words >> command;
        if (command == "matrix") {
            const Task task = read_task(words);
            rings.clear();
            std::string names;
            for (ggml_backend_buffer_type_t kind : kinds) {
                Ring ring;
                if (fill(ring, device, kind, task)) {
                    rings.push_back(std::move(ring));
                    names += std::string(names.empty() ? "" : " ") + ggml_backend_buft_name(kind);
                }
            }
            std::cout << names << std::endl;
        } else if (command == "time") {
            Ring & ring = ring_of(words);
            const double start = seconds();
            if (ggml_backend_graph_compute(backend.get(), ring.graph) != GGML_STATUS_SUCCESS) {
                fail("the graph failed");
            }
            std::cout << seconds() - start << std::endl;
        } else if (command == "product") {
            Ring & ring = ring_of(words);
            std::vector<char> product(ggml_nbytes(ring.last));
            ggml_backend_tensor_get(ring.last, product.data(), 0, product.size());
            std::cout.write(product.data(), product.size()).flush();
        } else {
            fail("cannot do " + line);
        }
    }
}
