// Threads that share the work of one call, and do not stand in the way when a core is wanted elsewhere.
#pragma once

#include <cstdint>

namespace cwnet {

// Calls task(data, i) for i = 0, ..., count - 1, on up to `threads` threads, the calling one among them.
//
// Tasks are handed out one by one, and the caller waits only for those that a thread has begun: one that gets
// no core takes no part, and costs nothing. Who waits looks a few thousand times, and then sleeps. So a busy
// neighbour takes a core's share of the work and not all of it, as it does where threads wait for each other
// by spinning. What is computed must not depend on who does a task. Where another thread uses them already,
// the caller does it all.
void run_tasks(std::int64_t count, int threads, void (*task)(const void*, std::int64_t), const void* data);

template <class Task>
void for_each_task(std::int64_t count, int threads, const Task& task) {
    run_tasks(
        count, threads, [](const void* data, std::int64_t i) { (*static_cast<const Task*>(data))(i); },
        &task);
}

// Calls work(begin, end) for ranges of `grain` that cover 0..count.
template <class Work>
void for_each_range(std::int64_t count, std::int64_t grain, int threads, const Work& work) {
    for_each_task((count + grain - 1) / grain, threads, [&](std::int64_t i) {
        const std::int64_t begin = i * grain, end = begin + grain < count ? begin + grain : count;
        work(begin, end);
    });
}

}  // namespace cwnet
