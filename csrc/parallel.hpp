// Chunks of work over threads, the calling thread among them, with cancellation.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "guard.hpp"

namespace cwnet {

// Runs work(chunk number, worker) for every chunk; make(is the caller) gives each thread a worker of its own.
// Chunks are handed out in increasing order. Stops early where cancellation is requested; exceptions of any
// thread are rethrown here, and `Cancelled` is not an error.
template <class Make, class Work>
void for_each_chunk(std::int64_t num_chunks, int threads, Cancellation& cancellation, Make&& make,
                    Work&& work) {
    std::atomic<std::int64_t> next{0};
    std::mutex mutex;
    std::condition_variable finished;
    std::exception_ptr failure;
    // More threads than a few per core do nothing but take memory, until a new one has none for its own data.
    const std::int64_t useful = std::max(16u, 4 * std::thread::hardware_concurrency());
    threads = static_cast<int>(
        std::clamp<std::int64_t>(threads, 1, std::clamp<std::int64_t>(num_chunks, 1, useful)));
    int running = threads;

    const auto loop = [&](bool caller) {
        try {
            auto worker = make(caller);
            for (;;) {
                const std::int64_t number = next++;
                if (number >= num_chunks || cancellation.requested()) break;
                if (caller) cancellation.poll_if_due();
                work(number, *worker);
            }
        } catch (const Cancelled&) {
        } catch (...) {
            const std::lock_guard lock(mutex);
            if (!failure) failure = std::current_exception();
            cancellation.request();
        }
        const std::lock_guard lock(mutex);
        --running;
        finished.notify_all();
    };

    std::vector<std::thread> helpers;
    try {
        for (int i = 1; i < threads; ++i) helpers.emplace_back(loop, false);
    } catch (const std::system_error&) {  // no more threads are to be had: those that started do the work
        const std::lock_guard lock(mutex);
        running -= threads - 1 - static_cast<int>(helpers.size());
    }
    loop(true);
    {
        std::unique_lock lock(mutex);
        while (running > 0) {
            finished.wait_for(lock, std::chrono::milliseconds(50));
            lock.unlock();
            cancellation.poll_if_due();
            lock.lock();
        }
    }
    for (auto& helper : helpers) helper.join();
    if (failure) std::rethrow_exception(failure);
}

}  // namespace cwnet
