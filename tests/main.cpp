// doctest's main, compiled once for all test programs. A filter that leaves no test fails: what it was for is not in the
// program, so nothing would be tested.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <string_view>

namespace {

/// Counts the tests, and notes those that were skipped: tests/summary.py prints lines that begin with "note: ".
struct Count final : doctest::IReporter {
  static inline unsigned tests = 0;
  static inline std::string_view source_file = {};  // the end of the only file whose tests run; empty: there is no such
  explicit Count(const doctest::ContextOptions&) {}
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& stats) override { tests = stats.numTestCasesPassingFilters; }
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData& test) override {
    // Tests that a filter leaves out are skipped, too, and belong to another run.
    if (test.m_skip && std::string_view(test.m_file.c_str()).ends_with(source_file))
      std::printf("note: skipped: %s\n", test.m_name);
  }
};
REGISTER_LISTENER("count", 1, Count);

}  // namespace

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  for (int i = 1; i < argc; ++i)
    if (const std::string_view word = argv[i], start = "--source-file=*"; word.starts_with(start))
      Count::source_file = word.substr(start.size());
  const int result = context.run();
  if (context.shouldExit()) return result;  // a question about the tests
  if (Count::tests == 0) std::fputs("no test of this program fits the filters\n", stderr);
  return Count::tests == 0 ? 1 : result;
}
