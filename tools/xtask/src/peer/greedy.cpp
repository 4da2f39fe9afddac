// llama-greedy MODEL TOKENS THREADS LOGITS < TEXT
//
// Continues a text greedily. On stdout: the ids of the text, a line, then those of the
// continuation. In the file LOGITS: the logits that each of the latter was chosen from, a row of
// 32-bit floats in this machine's byte order for each.

#include "llama.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <string>
#include <vector>

static int failed(const char *what) {
    std::fprintf(stderr, "llama-greedy: %s\n", what);
    return 1;
}

static void print(const std::vector<llama_token> &ids) {
    for (llama_token id : ids) {
        std::printf("%d ", id);
    }
    std::printf("\n");
}

int main(int argc, char **argv) {
    if (argc != 5) {
        return failed("MODEL TOKENS THREADS LOGITS < TEXT");
    }
    const int count = std::atoi(argv[2]);
    const int threads = std::atoi(argv[3]);
    std::string text;
    for (int c; (c = std::getchar()) != EOF;) {
        text.push_back(static_cast<char>(c));
    }

    llama_backend_init();
    llama_model *model = llama_model_load_from_file(argv[1], llama_model_default_params());
    if (!model) {
        return failed("cannot load the model");
    }
    const llama_vocab *vocab = llama_model_get_vocab(model);
    std::vector<llama_token> ids(text.size() + 2);
    const int length = llama_tokenize(vocab, text.data(), text.size(), ids.data(), ids.size(),
                                      /* add_special */ true, /* parse_special */ false);
    if (length < 1) {
        return failed("cannot tokenize the text");
    }
    ids.resize(length);
    print(ids);

    llama_context_params params = llama_context_default_params();
    params.n_ctx = length + count;
    params.n_batch = length;
    params.n_threads = params.n_threads_batch = threads;
    llama_context *context = llama_init_from_model(model, params);
    std::FILE *rows = std::fopen(argv[4], "wb");
    if (!context || !rows) {
        return failed(rows ? "cannot make a context" : "cannot write the logits");
    }
    const size_t width = llama_vocab_n_tokens(vocab);
    std::vector<llama_token> chosen;
    for (int step = 0; step < count; step++) {
        if (llama_decode(context, llama_batch_get_one(ids.data(), ids.size()))) {
            return failed("cannot evaluate");
        }
        const float *logits = llama_get_logits_ith(context, -1);
        if (std::fwrite(logits, sizeof(float), width, rows) != width) {
            return failed("cannot write the logits");
        }
        const llama_token best = std::max_element(logits, logits + width) - logits;
        chosen.push_back(best);
        if (llama_vocab_is_eog(vocab, best)) {
            break;
        }
        ids.assign(1, best);
    }
    print(chosen);
    return std::fclose(rows) ? failed("cannot write the logits") : 0;
}
