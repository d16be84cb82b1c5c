// Sentence search: the sentences nearest in meaning to a question, by a pretrained model that fxx traces, rewrites,
// turns into C++ and compiles.
//
// usage: sentence_search MODEL_FOLDER OUTPUT_FOLDER [WORD...]
//   MODEL_FOLDER has model.safetensors, config.json and vocab.txt of all-MiniLM-L6-v2; before.svg, after.svg and
//   forward.cpp are written into OUTPUT_FOLDER; the words are the question, without any a few are asked.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <numeric>

#include "bert.hpp"
#include "fxx/torch.hpp"
#include "wordpiece.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::string milliseconds(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  return text;
}

/// One line of the report: what a stage did, and took.
void report(const char* stage, const std::string& took, const std::string& did) {
  std::printf("  %-10s %11s   %s\n", stage, took.c_str(), did.c_str());
  std::fflush(stdout);
}

std::string nodes(std::size_t before, std::size_t after) {
  return std::to_string(before) + " -> " + std::to_string(after) + " nodes";
}

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error("the sentences, '" + path + "', cannot be opened");
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush()) throw std::runtime_error("'" + path + "' cannot be written");
}

/// Token ids and attention masks of texts, each [texts, length] of int64; shorter texts are padded to the length.
struct Tokens {
  at::Tensor ids, mask;

  Tokens(const WordPiece& tokenizer, const std::vector<std::string>& texts, std::size_t length = 0) {
    const TokenBatch batch = tokenizer.encode_batch(texts, length);
    const auto matrix = [&](const std::vector<std::int64_t>& values) {
      return torch::tensor(values).view(
          {static_cast<std::int64_t>(batch.rows), static_cast<std::int64_t>(batch.columns)});
    };
    ids = matrix(batch.input_ids);
    mask = matrix(batch.attention_mask);
  }
  /// The tokens of one text, as a batch of one.
  std::vector<at::Tensor> row(std::int64_t i) const { return {ids.narrow(0, i, 1), mask.narrow(0, i, 1)}; }
};

/// Embeddings of all texts, one after the other, [texts, hidden size]. `best` becomes the seconds a text when that is
/// less.
template <class Module>
at::Tensor embed(Module& module, const Tokens& tokens, double& best) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> rows;
  const auto start = Clock::now();
  for (std::int64_t i = 0; i < tokens.ids.size(0); ++i) {
    const auto inputs = tokens.row(i);
    rows.push_back(module->forward(inputs[0], inputs[1]));
  }
  best = std::min(best, seconds_since(start) / static_cast<double>(rows.size()));
  return torch::cat(rows);
}

void answer(const std::string& question, const at::Tensor& embedding, const std::vector<std::string>& sentences,
            const at::Tensor& embeddings) {
  const auto [scores, order] = torch::mv(embeddings, embedding).topk(3);
  std::printf("\n\"%s\"\n", question.c_str());
  for (std::int64_t i = 0; i < 3; ++i)
    std::printf("  %5.2f  %s\n", scores[i].item<double>(),
                sentences[static_cast<std::size_t>(order[i].item<std::int64_t>())].c_str());
}

/// Errors: std::runtime_error when there is nothing to look for, or more than the model was trained to read.
void check_question(const std::string& question, const WordPiece& tokenizer) {
  constexpr std::size_t max_tokens = 256;
  if (tokenizer.words(question).empty())
    throw std::runtime_error("the question is empty; ask something like \"how do I bake bread\"");
  const std::size_t tokens = tokenizer.encode(question).size();
  if (tokens > max_tokens)
    throw std::runtime_error("the question has " + std::to_string(tokens) + " tokens; the model reads at most " +
                             std::to_string(max_tokens));
}

void search_sentences(const std::string& model_folder, const std::string& output_folder,
                      const std::vector<std::string>& questions) {
  const std::vector<std::string> sentences = read_lines(FXX_SENTENCES);
  std::filesystem::create_directories(output_folder);

  auto start = Clock::now();
  SentenceEncoder encoder(BertConfig::read(model_folder + "/config.json"));
  // A question is refused rather than cut to what the model reads, so the tokenizer has no limit of its own.
  const WordPiece tokenizer(model_folder + "/vocab.txt", std::numeric_limits<std::size_t>::max());
  for (const std::string& question : questions) check_question(question, tokenizer);
  // The file has the weights of a head besides, which sentence embeddings do without.
  fxx::load_safetensors(*encoder, model_folder + "/model.safetensors", {.allow_unused = true});
  encoder->eval();
  std::int64_t weights = 0;
  for (const at::Tensor& parameter : encoder->parameters()) weights += parameter.numel();
  report("load", milliseconds(seconds_since(start)), std::to_string(weights) + " weights");

  // Sizes become constants in a trace, so all texts are padded to one length. Rounded up, most questions need no new
  // library.
  std::vector<std::string> texts = sentences;
  texts.insert(texts.end(), questions.begin(), questions.end());
  const Tokens longest(tokenizer, texts);
  const std::size_t length = (static_cast<std::size_t>(longest.ids.size(1)) + 31) / 32 * 32;
  const Tokens tokens(tokenizer, texts, length);

  start = Clock::now();
  const auto graph_module = fxx::trace(encoder, tokens.row(0));
  report("trace", milliseconds(seconds_since(start)),
         std::to_string(graph_module->graph().size()) + " nodes, two inputs of [1, " + std::to_string(length) + "]");
  const auto draw = [&](const char* name, const char* title) {
    start = Clock::now();
    const std::string path = output_folder + "/" + name;
    fxx::write_svg(graph_module->graph(), path, {.title = title});
    report("draw", milliseconds(seconds_since(start)), path);
  };
  draw("before.svg", "all-MiniLM-L6-v2 as traced");

  start = Clock::now();
  const fxx::OptimizeReport optimized = fxx::optimize_for_inference(*graph_module);
  report("rewrite", milliseconds(seconds_since(start)),
         nodes(optimized.stages.front().nodes_before, optimized.stages.back().nodes_after));
  for (const auto& stage : optimized.stages)
    report("", "",
           stage.name + ", " + nodes(stage.nodes_before, stage.nodes_after) +
               (stage.fired.empty() ? "" : ": " + stage.fired));
  draw("after.svg", "all-MiniLM-L6-v2 as rewritten");

  start = Clock::now();
  const std::string code = graph_module->code();
  const double generated = seconds_since(start);
  write_file(output_folder + "/forward.cpp", code);
  report(
      "generate", milliseconds(generated),
      output_folder + "/forward.cpp, " + std::to_string(std::count(code.begin(), code.end(), '\n')) + " lines of C++");

  start = Clock::now();
  const auto compiled = fxx::compile(*graph_module, tokens.row(0));
  report("compile", milliseconds(seconds_since(start)),
         std::string(compiled->was_cached() ? "loaded from the cache" : "built and loaded") + ", " +
             std::to_string(compiled->called_back().size()) + " nodes called back");

  at::Tensor by_eager, by_compiled;
  double eager_seconds = std::numeric_limits<double>::infinity(), compiled_seconds = eager_seconds;
  for (int turn = 0; turn < 3; ++turn) {  // in turns, so that a busy machine is busy for both
    by_eager = embed(encoder, tokens, eager_seconds);
    by_compiled = embed(compiled, tokens, compiled_seconds);
  }
  report("embed", milliseconds(eager_seconds), "a text, eager, of " + std::to_string(texts.size()) + " texts");
  report("", milliseconds(compiled_seconds), "a text, compiled");
  at::Tensor unpadded;
  {
    const torch::NoGradGuard no_grad;
    std::vector<at::Tensor> rows;
    for (const std::string& text : texts) {
      const Tokens one(tokenizer, {text});
      rows.push_back(encoder->forward(one.ids, one.mask));
    }
    unpadded = torch::cat(rows);
  }
  std::printf("  largest difference of compiled from eager %.1e, from eager without padding %.1e\n",
              (by_compiled - by_eager).abs().max().item<double>(), (by_compiled - unpadded).abs().max().item<double>());

  const auto count = static_cast<std::int64_t>(sentences.size());
  for (std::size_t i = 0; i < questions.size(); ++i)
    answer(questions[i], by_compiled[count + static_cast<std::int64_t>(i)], sentences, by_compiled.narrow(0, 0, count));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s MODEL_FOLDER OUTPUT_FOLDER [WORD...]\n", argv[0]);
    return 2;
  }
  std::vector<std::string> questions;
  if (argc > 3) {
    std::string question = argv[3];
    for (int i = 4; i < argc; ++i) question += std::string(" ") + argv[i];
    questions = {question};
  } else {
    questions = {"how do I bake bread", "why was the plane late", "my code has a memory error",
                 "what happens to bonds when rates go up"};
  }
  try {
    search_sentences(argv[1], argv[2], questions);
  } catch (const c10::Error& e) {
    std::fprintf(stderr, "sentence_search: %s\n", e.what_without_backtrace());
    return 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "sentence_search: %s\n", e.what());
    return 1;
  }
}
