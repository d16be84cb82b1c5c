// runtime/process.hpp: programs that print, fail, hang, cannot be started; several at once, that stand or fall together.
#include "fxx/runtime/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "not_checked.hpp"
#include "support.hpp"

namespace {

using fxx::CompileError;
using fxx::ErrorId;
using fxx::ProcessResult;
using support::contains;
using support::fault_of;
using support::TemporaryFolder;
using support::Variable;

ProcessResult shell(const std::string& script, const fxx::ProcessOptions& options = {}) {
  return fxx::run_process({"/bin/sh", "-c", script}, options);
}

/// Does a process run that nobody has ended? One that waits to be reaped does not.
bool alive(pid_t id) {
  const std::string status = support::content_of("/proc/" + std::to_string(id) + "/stat");
  const std::size_t end = status.rfind(") ");
  return end != status.npos && status[end + 2] != 'Z' && status[end + 2] != 'X';
}

/// Waits until a process is gone; false when it never goes.
bool gone(pid_t id) {
  for (int i = 0; i < 3000; ++i) {
    if (!alive(id)) return true;
    ::usleep(10000);
  }
  return false;
}

/// How many processes run with this word among theirs.
int count_running(const std::string& word) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != name.npos) continue;
    try {
      const std::string words = '\0' + support::content_of(entry.path().string() + "/cmdline");
      count += contains(words, '\0' + word + '\0') && alive(std::stoi(name));
    } catch (const std::exception&) {  // it has ended meanwhile
    }
  }
  return count;
}
bool all_gone(const std::string& word) {
  for (int i = 0; i < 1000; ++i) {
    if (count_running(word) == 0) return true;
    ::usleep(10000);
  }
  return false;
}

CompileError failure_of(const std::vector<std::string>& argv, const fxx::ProcessOptions& options = {}) {
  CompileError error = fault_of<CompileError>([&] { fxx::run_process(argv, options); });
  CHECK(error.id() == ErrorId::process_failed);
  return error;
}

}  // namespace

TEST_CASE("a program's output and exit status come back") {
  const ProcessResult result = shell("echo out; echo error >&2; echo again; exit 3");
  CHECK(result.output == "out\nerror\nagain\n");
  CHECK(result.output_size == result.output.size());
  CHECK(result.exit_status == 3);
  CHECK(result.signal == 0);
  CHECK(!result.timed_out);
  CHECK(!result.ok());
  CHECK(result.seconds >= 0);
  CHECK(shell("true").ok());
}

TEST_CASE("a program ended by a signal says which") {
  const ProcessResult result = shell("kill -SEGV $$");
  CHECK(result.exit_status == -1);
  CHECK(result.signal == SIGSEGV);
  CHECK(!result.ok());
}

TEST_CASE("exit status 127 is a status like others") { CHECK(shell("exit 127").exit_status == 127); }

TEST_CASE("words reach the program as they are") {
  const std::vector<std::string> words = {"",
                                          "a b",
                                          "$HOME",
                                          "`id`",
                                          "\"x\"",
                                          "it's",
                                          "line\nbreak",
                                          "*",
                                          "-n",
                                          "\\",
                                          ";",
                                          "\xff\xfe",
                                          std::string(100000, 'x')};
  std::vector<std::string> argv = {"printf", "[%s]"};
  argv.insert(argv.end(), words.begin(), words.end());
  std::string expected;
  for (const std::string& word : words) expected += "[" + word + "]";
  CHECK(fxx::run_process(argv).output == expected);
}

TEST_CASE("command_line gives what a shell reads back") {
  const std::vector<std::string> argv = {"printf",      "[%s]",        "",  "a b", "it's", "$HOME",
                                         "--flag=/a,b", "line\nbreak", "\\"};
  CHECK(shell(fxx::command_line(argv)).output == "[][a b][it's][$HOME][--flag=/a,b][line\nbreak][\\]");
  CHECK(fxx::command_line({"g++", "-O2", "a b.cpp"}) == "g++ -O2 'a b.cpp'");
}

TEST_CASE("the program runs in the folder that is asked for") {
  const TemporaryFolder folder;
  CHECK(shell("pwd -P", {.working_directory = folder.path()}).output == folder.path() + "\n");
  // A relative path of the program is seen from our folder, not from its.
  folder.script("deep/program", "pwd -P");
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(folder.path());
  const ProcessResult result = fxx::run_process({"deep/program"}, {.working_directory = "/"});
  std::filesystem::current_path(here);
  CHECK(result.output == "/\n");
}

TEST_CASE("variables are added to those inherited, or replace them") {
  const Variable kept("FXX_TEST_KEPT", "kept"), replaced("FXX_TEST_REPLACED", "old");
  const ProcessResult result = shell("echo $FXX_TEST_KEPT $FXX_TEST_REPLACED $FXX_TEST_ADDED",
                                     {.environment = {{"FXX_TEST_REPLACED", "new"}, {"FXX_TEST_ADDED", "a=b"}}});
  CHECK(result.output == "kept new a=b\n");
  CHECK(shell("env | grep -c '^FXX_TEST_REPLACED='", {.environment = {{"FXX_TEST_REPLACED", "x"}}}).output == "1\n");
}

TEST_CASE("standard input is empty") { CHECK(shell("cat; echo end").output == "end\n"); }

TEST_CASE("the first and the last part of long output are kept") {
  const std::string script = "i=0; while [ $i -lt 20000 ]; do echo line-$i; i=$((i+1)); done";
  const std::string all = shell(script).output;
  CHECK(all.size() > 200000);
  const ProcessResult result = shell(script, {.output_limit = 1001});
  CHECK(result.output_size == all.size());
  CHECK(result.output.starts_with(all.substr(0, 501) + "\n[... " + std::to_string(all.size() - 1001) +
                                  " bytes left out ...]\n"));
  CHECK(result.output.ends_with("\n" + all.substr(all.size() - 500)));
  CHECK(shell("printf 12345", {.output_limit = 5}).output == "12345");
  CHECK(shell("printf 123456", {.output_limit = 5}).output == "123\n[... 1 bytes left out ...]\n56");
  CHECK(shell("printf 12", {.output_limit = 0}).output == "\n[... 2 bytes left out ...]\n");
  CHECK(shell("printf 12", {.output_limit = 1}).output == "1\n[... 1 bytes left out ...]\n");
  CHECK(shell("true", {.output_limit = 0}).output.empty());
}

TEST_CASE("output with zero bytes and more than a pipe holds arrives whole") {
  CHECK(shell("printf 'a\\000b'").output == std::string("a\0b", 3));
  CHECK(shell("head -c 500000 /dev/zero").output == std::string(500000, '\0'));
}

TEST_CASE("a time-out ends the program and all that it started") {
  const TemporaryFolder folder;
  // Both ignore the polite signal. The limit grows until they had the time to say who they are.
  const std::string script =
      "trap '' TERM; (trap '' TERM; sh -c 'echo $PPID > inner.new; mv inner.new inner'; sleep 1000) & "
      "echo $$ > outer; wait; sleep 1000";
  ProcessResult result;
  for (double limit = 0.2; limit < 100; limit *= 2) {
    result = shell(script, {.working_directory = folder.path(), .timeout_seconds = limit});
    CHECK(result.timed_out);
    CHECK(!result.ok());
    if (std::filesystem::exists(folder / "inner")) break;
  }
  CHECK(result.signal == SIGKILL);
  const pid_t outer = std::stoi(support::content_of(folder / "outer")),
              inner = std::stoi(support::content_of(folder / "inner"));
  CHECK(outer != inner);
  CHECK(gone(outer));
  CHECK(gone(inner));
  CHECK(contains(fxx::describe(result), "time limit"));
}

TEST_CASE("a time-out ends those too that outlive the program itself") {
  const TemporaryFolder folder;
  const std::string script = "(trap '' TERM; sh -c 'echo $PPID > inner.new; mv inner.new inner'; sleep 1000) & wait";
  bool in_time = false;
  for (double limit = 0.2; limit < 100; limit *= 2) {
    const ProcessResult result = shell(script, {.working_directory = folder.path(), .timeout_seconds = limit});
    CHECK(result.timed_out);
    in_time = std::filesystem::exists(folder / "inner");
    if (!in_time) continue;
    CHECK(result.signal == SIGTERM);
    CHECK(gone(std::stoi(support::content_of(folder / "inner"))));
    break;
  }
  CHECK(in_time);
}

TEST_CASE("programs run side by side, and their results come in order") {
  const TemporaryFolder folder;
  // Each waits for what the other makes, so one after the other they would never end.
  const std::vector<ProcessResult> results =
      fxx::run_processes({{"/bin/sh", "-c", "echo first; touch one; until [ -e two ]; do sleep 0.01; done; echo end"},
                          {"/bin/sh", "-c", "until [ -e one ]; do sleep 0.01; done; touch two; echo second"}},
                         {.working_directory = folder.path(), .timeout_seconds = 100});
  REQUIRE(results.size() == 2);
  CHECK(results[0].ok());
  CHECK(results[1].ok());
  CHECK(results[0].output == "first\nend\n");
  CHECK(results[1].output == "second\n");
  CHECK(!results[0].cancelled);
  CHECK(!results[1].cancelled);
  CHECK(fxx::run_processes({}).empty());
}

TEST_CASE("one that fails stops those beside it") {
  const TemporaryFolder folder;
  const std::vector<std::string> waiting = {"/bin/sh", "-c", "echo $$ > id.$$; mv id.$$ id; sleep 1000"},
                                 failing = {"/bin/sh", "-c", "until [ -e id ]; do sleep 0.01; done; echo why; exit 7"};
  for (const bool first : {false, true}) {
    CAPTURE(first);
    const auto results = fxx::run_processes(first ? std::vector{failing, waiting} : std::vector{waiting, failing},
                                            {.working_directory = folder.path(), .timeout_seconds = 100});
    const ProcessResult &failed = results[first ? 0 : 1], &stopped = results[first ? 1 : 0];
    CHECK(failed.exit_status == 7);
    CHECK(failed.output == "why\n");
    CHECK(!failed.cancelled);
    CHECK(stopped.cancelled);
    CHECK(!stopped.timed_out);
    CHECK(stopped.signal == SIGTERM);
    CHECK(gone(std::stoi(support::content_of(folder / "id"))));
    std::filesystem::remove(folder / "id");
  }
}

TEST_CASE("a time-out ends all that run side by side") {
  const TemporaryFolder folder;
  const auto waiting = [](const std::string& name) {
    return std::vector<std::string>{
        "/bin/sh", "-c",
        "trap '' TERM; echo $$ > " + name + ".new; mv " + name + ".new " + name + "; while :; do sleep 0.1; done"};
  };
  bool in_time = false;
  for (double limit = 0.2; limit < 100; limit *= 2) {
    const auto results = fxx::run_processes({waiting("one"), waiting("two"), {"/bin/sh", "-c", "exit 0"}},
                                            {.working_directory = folder.path(), .timeout_seconds = limit});
    CHECK((results[0].timed_out || results[1].timed_out));
    for (int i : {0, 1}) CHECK((results[i].timed_out || results[i].cancelled));
    in_time = std::filesystem::exists(folder / "one") && std::filesystem::exists(folder / "two");
    if (!in_time) continue;
    for (const char* name : {"one", "two"}) CHECK(gone(std::stoi(support::content_of(folder / name))));
    CHECK(results[0].signal == SIGKILL);
    CHECK(results[1].signal == SIGKILL);
    CHECK(results[2].ok());
    break;
  }
  CHECK(in_time);
}

TEST_CASE("where one of several cannot be started, none is left running") {
  const TemporaryFolder folder;
  const CompileError error = fault_of<CompileError>([&] {
    fxx::run_processes({{"/bin/sh", "-c", "echo $$ > id; exec sleep 1000"}, {"fxx-no-such-program"}},
                       {.working_directory = folder.path()});
  });
  CHECK(error.id() == ErrorId::process_failed);
  CHECK(contains(error.what(), "fxx-no-such-program"));
  if (std::filesystem::exists(folder / "id") && !support::content_of(folder / "id").empty())
    CHECK(gone(std::stoi(support::content_of(folder / "id"))));
}

namespace {
/// As what a caller does while programs run.
template <class F>
fxx::Meanwhile meanwhile(F& f) {
  return {[](void* data) { (*static_cast<F*>(data))(); }, &f};
}
}  // namespace

TEST_CASE("the caller works while programs run, once, whatever they print") {
  const TemporaryFolder folder;
  int calls = 0;
  // Each waits for the other.
  auto work = [&] {
    ++calls;
    while (!std::filesystem::exists(folder / "running")) ::usleep(1000);
    folder.file("worked", "");
  };
  const std::vector<std::string> waiting = {"/bin/sh", "-c", "touch running; until [ -e worked ]; do sleep 0.01; done"},
                                 printing = {"/bin/sh", "-c", "head -c 300000 /dev/zero"};
  const auto results = fxx::run_processes(
      {waiting, printing}, {.working_directory = folder.path(), .timeout_seconds = 100, .meanwhile = meanwhile(work)});
  CHECK(calls == 1);
  CHECK(results[0].ok());
  CHECK(results[1].ok());
  CHECK(results[1].output_size == 300000);
}

TEST_CASE("who ends while the caller works is in time, who runs on is not") {
  auto work = [] { ::usleep(1500000); };
  const fxx::ProcessOptions options{.timeout_seconds = 1, .meanwhile = meanwhile(work)};
  CHECK(shell("echo done", options).output == "done\n");
  CHECK(shell("sleep 1000", options).timed_out);
}

TEST_CASE("what the caller's work throws ends the programs") {
  const TemporaryFolder folder;
  auto work = [&] {
    while (!std::filesystem::exists(folder / "id")) ::usleep(1000);
    throw std::domain_error("no more");
  };
  CHECK_THROWS_AS(shell("echo $$ > id.new; mv id.new id; exec sleep 1000",
                        {.working_directory = folder.path(), .meanwhile = meanwhile(work)}),
                  std::domain_error);
  CHECK(gone(std::stoi(support::content_of(folder / "id"))));
}

TEST_CASE("the processors that may be used are at least one, and those of the affinity") {
  const int all = fxx::available_processors();
  CHECK(all >= 1);
  int one = 0;
  std::thread([&] {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(::sched_getcpu()), &set);
    if (::sched_setaffinity(0, sizeof set, &set) == 0) {
      one = fxx::available_processors();
    } else {
      fxx::test::not_checked("processors of a thread's affinity: it cannot be set here");
      one = 1;
    }
  }).join();
  CHECK(one == 1);
  CHECK(fxx::available_processors() == all);
}

TEST_CASE("a program that heeds the first signal can clean up") {
  const TemporaryFolder folder;
  bool in_time = false;
  for (double limit = 0.2; limit < 100; limit *= 2) {
    const ProcessResult result = shell("trap 'echo cleaned; exit 9' TERM; touch ready; while :; do sleep 0.01; done",
                                       {.working_directory = folder.path(), .timeout_seconds = limit});
    CHECK(result.timed_out);
    in_time = std::filesystem::exists(folder / "ready");
    if (!in_time) continue;
    CHECK(result.output.ends_with("cleaned\n"));
    CHECK(result.exit_status == 9);
    CHECK(!result.ok());
    break;
  }
  CHECK(in_time);
}

TEST_CASE("a limit that is not reached changes nothing") {
  const ProcessResult result = shell("echo done", {.timeout_seconds = 500});
  CHECK(result.ok());
  CHECK(result.output == "done\n");
}

TEST_CASE("a process left running is not waited for") {
  const ProcessResult result = shell("echo before; sleep 1000 & echo $!", {.timeout_seconds = 500});
  CHECK(result.ok());
  REQUIRE(result.output.starts_with("before\n"));
  const pid_t left = std::stoi(result.output.substr(7));
  CHECK(alive(left));
  ::kill(left, SIGKILL);
}

TEST_CASE("a program that closes its output is waited for") {
  CHECK(shell("exec >&- 2>&-; sleep 0.1; exit 5").exit_status == 5);
}

TEST_CASE("a program that cannot be started is a fault with the reason") {
  const TemporaryFolder folder;
  CHECK(contains(failure_of({"fxx-no-such-program"}).what(), "no program of this name is in PATH="));
  CHECK(contains(failure_of({folder / "missing"}).what(), "No such file"));
  CHECK(contains(failure_of({folder.path()}).what(), "not an executable file"));
  CHECK(contains(failure_of({folder.file("text", "text")}).what(), "not an executable file"));
  CHECK(contains(failure_of({}).what(), "no program is named"));
  CHECK(contains(failure_of({""}).what(), "no program is named"));

  const std::string no_interpreter = folder.file("no_interpreter", "#!/fxx/no/such/interpreter\n");
  std::filesystem::permissions(no_interpreter, std::filesystem::perms::owner_all);
  CHECK(contains(failure_of({no_interpreter}).what(), "cannot be started"));
  const std::string no_program = folder.file("no_program", std::string("\177ELF\0\0\0", 7));
  std::filesystem::permissions(no_program, std::filesystem::perms::owner_all);
  CHECK(contains(failure_of({no_program}).what(), "cannot be started"));
}

TEST_CASE("requests that no program could receive are refused") {
  const std::string zero("a\0b", 3);
  CHECK(contains(failure_of({"true", zero}).what(), "zero byte"));
  CHECK(contains(failure_of({"true"}, {.environment = {{"A", zero}}}).what(), "zero byte"));
  CHECK(contains(failure_of({"true"}, {.environment = {{"A=B", "c"}}}).what(),
                 "'A=B' cannot be an environment variable"));
  CHECK(contains(failure_of({"true"}, {.environment = {{"", "c"}}}).what(), "cannot be an environment variable"));
  CHECK(contains(failure_of({"true"}, {.working_directory = "/fxx/no/such"}).what(), "'/fxx/no/such' is not a folder"));
  std::vector<std::string> long_line(40, std::string(100000, 'x'));
  long_line.insert(long_line.begin(), "true");
  CHECK(contains(failure_of(long_line).what(), "cannot be started"));
}

TEST_CASE("an exit status that other code took is a fault") {
  struct sigaction ignore {};
  struct sigaction old {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGCHLD, &ignore, &old);
  try {
    CHECK(contains(failure_of({"true"}).what(), "SIGCHLD"));
  } catch (...) {
  }
  ::sigaction(SIGCHLD, &old, nullptr);
  CHECK(shell("true").ok());
}

TEST_CASE("no descriptor and no process is left over") {
  (void)shell("true");
  const int before = support::open_descriptors();
  for (int i = 0; i < 20; ++i) {
    (void)shell("exit 1");
    (void)failure_of({"fxx-no-such-program"});
  }
  const TemporaryFolder folder;
  const std::string broken = folder.file("broken", "#!/fxx/no/such/interpreter\n");
  std::filesystem::permissions(broken, std::filesystem::perms::owner_all);
  (void)failure_of({broken});
  (void)shell("sleep 1000", {.timeout_seconds = 0.01});
  (void)fxx::run_processes({{"/bin/sh", "-c", "sleep 1000"}, {"/bin/sh", "-c", "exit 1"}});
  (void)fault_of<CompileError>([] { fxx::run_processes({{"/bin/sh", "-c", "sleep 1000"}, {"fxx-no-such-program"}}); });
  CHECK(support::open_descriptors() == before);
  const std::string self = "/proc/self/task/" + std::to_string(::getpid()) + "/children";
  std::istringstream children(support::content_of(self));
  for (pid_t child = 0; children >> child;) CHECK_MESSAGE(false, "the process ", child, " was not reaped");
}

#if defined(__GLIBC__)
#if __GLIBC_PREREQ(2, 34)
TEST_CASE("our open files are not passed on") {
  const int inheritable = ::open("/dev/null", O_RDONLY);
  const ProcessResult result = shell("ls /proc/$$/fd");
  ::close(inheritable);
  std::istringstream lines(result.output);
  for (std::string line; lines >> line;) CHECK_MESSAGE(std::stoi(line) <= 2, "the program has descriptor ", line);
}
#endif
#endif

TEST_CASE("the program starts with default signals and its own group") {
  struct sigaction ignore {};
  struct sigaction old {};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &ignore, &old);
  sigset_t blocked, mask;
  ::sigemptyset(&blocked);
  ::sigaddset(&blocked, SIGUSR1);
  ::sigaddset(&blocked, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &mask);
  const ProcessResult result =
      fxx::run_process({"sed", "-n", "s/^Sig\\(Blk\\|Ign\\):[^0-9a-f]*//p", "/proc/self/status"});
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  ::sigaction(SIGPIPE, &old, nullptr);
  std::istringstream sets(result.output);
  unsigned long long blocked_there = 1, ignored_there = 1;
  sets >> std::hex >> blocked_there >> ignored_there;
  CHECK(blocked_there == 0);
  CHECK((ignored_there & 0x7fffffff) == 0);  // glibc ignores two of its own above 31
  const ProcessResult group = shell("cut -d' ' -f1,5 /proc/$$/stat");
  const std::size_t blank = group.output.find(' ');
  CHECK(group.output.substr(0, blank) + "\n" == group.output.substr(blank + 1));
}

TEST_CASE("it works with our own standard input and output closed") {
  const int input = ::dup(0), output = ::dup(1), errors = ::dup(2);
  ::close(0);
  ::close(1);
  ::close(2);
  ProcessResult result;
  std::string problem;
  try {
    result = shell("cat; echo out; echo error >&2");
  } catch (const std::exception& error) {
    problem = error.what();
  }
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::dup2(errors, 2);
  ::close(input);
  ::close(output);
  ::close(errors);
  CHECK(problem == "");
  CHECK(result.output == "out\nerror\n");
}

TEST_CASE("threads run programs at the same time") {
  std::vector<std::thread> threads;
  std::vector<int> good(8);
  for (std::size_t t = 0; t < good.size(); ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) {
        const std::string name = std::to_string(t) + "-" + std::to_string(i);
        const ProcessResult result = shell("echo " + name + "; exit " + std::to_string(t));
        good[t] += result.output == name + "\n" && result.exit_status == static_cast<int>(t);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int count : good) CHECK(count == 15);
}

TEST_CASE("describe says how a program ended") {
  ProcessResult result;
  result.exit_status = 2;
  CHECK(fxx::describe(result) == "ended with status 2");
  result.signal = SIGSEGV;
  CHECK(fxx::describe(result).starts_with("was ended by signal 11 (Segmentation fault"));
  result.timed_out = true;
  result.seconds = 10.25;
  CHECK(fxx::describe(result) == "ran over its time limit and was stopped after 10.25 s");
}

TEST_CASE("find_program looks through PATH") {
  const TemporaryFolder folder;
  const std::string first = folder.script("first/tool", "echo first"),
                    second = folder.script("second/tool", "echo second");
  std::filesystem::create_directories(folder / "folder/tool");
  folder.file("text/tool", "no program");
  const auto search = [&](const std::string& path) {
    const Variable variable("PATH", path);
    return fxx::find_program("tool").value_or("none");
  };
  CHECK(search((folder / "first") + ":" + (folder / "second")) == first);
  CHECK(search((folder / "second/") + ":" + (folder / "first")) == second);
  CHECK(search((folder / "missing") + ":" + (folder / "folder") + ":" + (folder / "text") + ":" + (folder / "first")) ==
        first);
  CHECK(search(folder / "text") == "none");
  CHECK(search("") == "none");
  CHECK(fxx::find_program(first) == first);
  CHECK(!fxx::find_program(folder / "text/tool"));
  CHECK(!fxx::find_program(folder.path()));
  CHECK(!fxx::find_program(""));
  {
    const Variable variable("PATH", std::nullopt);
    CHECK(fxx::find_program("sh"));
  }
  // An empty element would be the current folder.
  const std::string here = std::filesystem::current_path().string();
  std::filesystem::current_path(folder / "first");
  CHECK(search(":" + (folder / "second") + ":") == second);
  CHECK(search("::") == "none");
  std::filesystem::current_path(here);
}

TEST_CASE("however this process ends, and whenever: what it started ends with it, and all that those started") {
  std::mt19937 random(5);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGKILL, SIGSEGV})
    for (int attempt = 0; attempt < 12; ++attempt) {
      CAPTURE(signal);
      CAPTURE(attempt);
      const std::string word = "86400." + std::to_string(::getpid()) + std::to_string(100 * signal + attempt);
      // One heeds no signal that can be ignored, and each has a child.
      const std::string sleeps = "sleep " + word + " & sleep " + word, deaf = "trap '' TERM INT HUP; " + sleeps;
      sigset_t only, before;
      ::sigemptyset(&only);
      ::sigaddset(&only, signal);
      ::pthread_sigmask(SIG_BLOCK, &only, &before);  // until the handlers of the tests are gone
      const pid_t child = ::fork();
      if (child == 0) {
        const struct rlimit none{0, 0};
        ::setrlimit(RLIMIT_CORE, &none);
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        ::sigaction(signal, &usual, nullptr);
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        (void)fxx::run_processes({{"/bin/sh", "-c", sleeps}, {"/bin/sh", "-c", deaf}, {"sleep", word}});
        ::_exit(0);
      }
      ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
      if (attempt == 0)  // all of them run
        for (int i = 0; i < 1000 && count_running(word) < 5; ++i) ::usleep(10000);
      else
        ::usleep(static_cast<useconds_t>(random() % 12000));
      ::kill(child, signal);
      int status = 0;
      ::waitpid(child, &status, 0);
      CHECK(WIFSIGNALED(status));
      CHECK(all_gone(word));
    }
}

TEST_CASE("what a program left running stays when this process ends later") {
  const TemporaryFolder folder;
  const std::string word = "86401." + std::to_string(::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    // The first ends and leaves something behind; the second still runs when this process is killed.
    (void)shell("sleep " + word + " >/dev/null 2>&1 &");
    (void)shell("touch " + (folder / "there") + "; sleep " + word + "1");
    ::_exit(0);
  }
  while (!std::filesystem::exists(folder / "there")) ::usleep(1000);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(all_gone(word + "1"));
  CHECK(count_running(word) == 1);
  (void)shell("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null | grep -q '^sleep " + word +
              " $' && kill ${p#/proc/}; done");
  CHECK(all_gone(word));
}
