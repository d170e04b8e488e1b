#include "pool.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>

namespace cwnet {
namespace {

constexpr int kLooks = 4000;  // before a thread goes to sleep; some tens of microseconds

void breathe() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Waits until `value` is no longer `old`.
template <class T>
void await_change(const std::atomic<T>& value, T old) {
    for (int look = 0; look < kLooks; ++look) {
        if (value.load(std::memory_order_acquire) != old) return;
        breathe();
    }
    value.wait(old, std::memory_order_acquire);
}

class Pool {
  public:
    void run(std::int64_t count, int threads, void (*task)(const void*, std::int64_t), const void* data) {
        std::unique_lock mine(users_, std::try_to_lock);
        if (count < 2 || threads < 2 || !mine.owns_lock()) {
            for (std::int64_t i = 0; i < count; ++i) task(data, i);
            return;
        }
        const int helpers = static_cast<int>(std::min<std::int64_t>(threads, count)) - 1;
        grow(helpers);
        task_ = task;
        data_ = data;
        count_ = count;
        next_.store(0, std::memory_order_relaxed);
        places_.store(helpers, std::memory_order_release);  // from now on helpers come in
        calls_.fetch_add(1, std::memory_order_release);
        if (started_ == 1)
            calls_.notify_one();
        else
            calls_.notify_all();
        drain();
        // No one comes in any more. Those who are in are counted in `inside_`.
        close();
        for (int inside = inside_.load(std::memory_order_seq_cst); inside > 0;
             inside = inside_.load(std::memory_order_acquire))
            await_change(inside_, inside);
    }

  private:
    void grow(int helpers) {
        try {
            for (; started_ < helpers; ++started_) std::thread([this] { serve(); }).detach();
        } catch (const std::system_error&) {  // no more threads are to be had: those that started do the work
        }
    }

    void serve() {
        for (std::uint32_t seen = 0;;) {
            await_change(calls_, seen);
            seen = calls_.load(std::memory_order_acquire);
            if (!enter()) continue;
            drain();
            if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) inside_.notify_one();
        }
    }

    // Whether there is a place for one more helper.
    bool enter() {
        inside_.fetch_add(1, std::memory_order_seq_cst);
        if (places_.fetch_sub(1, std::memory_order_seq_cst) > 0) return true;
        places_.fetch_add(1, std::memory_order_seq_cst);
        if (inside_.fetch_sub(1, std::memory_order_acq_rel) == 1) inside_.notify_one();
        return false;
    }

    void close() { places_.fetch_sub(kClosed, std::memory_order_seq_cst); }

    void drain() {
        for (std::int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < count_;) task_(data_, i);
    }

    static constexpr int kClosed = 1 << 20;

    std::mutex users_;
    int started_ = 0;
    void (*task_)(const void*, std::int64_t) = nullptr;
    const void* data_ = nullptr;
    std::int64_t count_ = 0;
    alignas(64) std::atomic<std::int64_t> next_{0};
    alignas(64) std::atomic<int> places_{0};
    alignas(64) std::atomic<int> inside_{0};
    alignas(64) std::atomic<std::uint32_t> calls_{0};
};

}  // namespace

void run_tasks(std::int64_t count, int threads, void (*task)(const void*, std::int64_t), const void* data) {
    static Pool* const pool = new Pool;  // never deleted: its threads sleep until the process ends
    pool->run(count, threads, task, data);
}

}  // namespace cwnet
