#include "certify.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <utility>

#include "classes.hpp"
#include "parallel.hpp"

namespace cwnet {

namespace {

constexpr u64 kCertificateVersion = 2;

// Sweeps that are made without looking at the classes: there is hardly a molecule that is stable by then.
constexpr int kBlindSweeps = 2;

inline Colour operator+(Colour x, Colour y) {
    return {x.a + y.a, x.b + y.b};
}
inline Colour& operator+=(Colour& x, Colour y) {
    return x = x + y;
}

// A hash of two values. The rotation tells them apart: mix(x, y) is not mix(y, x).
inline Colour mix(Colour x, Colour y) {
    return finish(x.a + rotate(y.a, 23), x.b + rotate(y.b, 23));
}

// A vertex's size is its number of edges, any other cell's its number of faces.
Colour first_colour(int d, const std::int64_t* label, u64 size) {
    return hash_words(static_cast<u64>(d) << 1 | (label != nullptr), size,
                      label ? static_cast<u64>(*label) : 0);
}

// First colours of small cells without labels, by dimension and size.
constexpr int kUsualDims = 3;
constexpr int kUsualSizes = 32;
using UsualColours = std::array<std::array<Colour, kUsualSizes>, kUsualDims>;

const UsualColours& usual_colours() {
    static const UsualColours all = [] {
        UsualColours made;
        for (int d = 0; d < kUsualDims; ++d)
            for (int size = 0; size < kUsualSizes; ++size) made[d][size] = first_colour(d, nullptr, size);
        return made;
    }();
    return all;
}

class Certifier {
  public:
    explicit Certifier(const Complexes& complexes) : complexes_(complexes), layers_(complexes.dims()) {}

    Colour run(std::int64_t g) {
        load(g);
        start(g);
        u64 sweeps = 0;
        for (; sweeps < kBlindSweeps; ++sweeps) sweep();
        classes_.start(colour_.data(), even_);
        do {
            sweep();
            ++sweeps;
        } while (classes_.update(colour_.data()));
        Colour sum;
        for (std::int32_t cell = 0; cell < even_; ++cell) sum += colour_[cell];
        return mix(sum, hash_words(kCertificateVersion << 32 | sweeps, even_, odd_));
    }

  private:
    // The cells of one dimension of the present complex.
    struct Layer {
        std::int32_t count = 0;
        std::int32_t offset = 0;             // of its cells among those of even, or of odd, dimension
        const std::int32_t* rows = nullptr;  // faces of cell i are face[rows[i]] to face[rows[i + 1]]
        const std::int32_t* face = nullptr;  // local to the layer below
        bool pairs = false;                  // every cell has two faces, as edges have
    };

    // Throws where a boundary names a cell that is not there: nothing behind this looks again.
    void load(std::int64_t g) {
        even_ = odd_ = 0;
        for (int d = 0; d < complexes_.dims(); ++d) {
            Layer& layer = layers_[d];
            const std::int64_t first = complexes_.cell_ptr[d][g];
            layer.count = static_cast<std::int32_t>(complexes_.cell_ptr[d][g + 1] - first);
            std::int32_t& cells = d % 2 ? odd_ : even_;
            layer.offset = cells;
            cells += layer.count;
            if (d == 0) continue;
            layer.rows = complexes_.boundary_ptr[d - 1] + first;
            layer.face = complexes_.boundary_idx[d - 1];
            check_faces(layer, static_cast<std::uint32_t>(layers_[d - 1].count));
            bool others = false;
            for (std::int32_t i = 0; i < layer.count; ++i) others |= layer.rows[i + 1] - layer.rows[i] != 2;
            layer.pairs = !others;
        }
        for (std::vector<Colour>* cells : {&colour_, &heard_}) reserve(*cells, even_);
        for (std::vector<Colour>* cells : {&label_, &message_, &above_}) reserve(*cells, odd_);
    }

    // A face f is there if neither f nor count - 1 - f is negative: so there is one bit to look at in the
    // end.
    static void check_faces(const Layer& layer, std::uint32_t count) {
        std::uint32_t bits = 0;
        for (std::int32_t i = layer.rows[0], end = layer.rows[layer.count]; i < end; ++i) {
            const auto f = static_cast<std::uint32_t>(layer.face[i]);
            bits |= f | (count - 1 - f);
        }
        if (bits >> 31) throw std::out_of_range("a boundary names a cell that is not in its complex");
    }

    static void reserve(std::vector<Colour>& cells, std::int32_t count) {
        if (static_cast<std::int32_t>(cells.size()) < count) cells.resize(count);
    }

    void start(std::int64_t g) {
        degree_.assign(layers_[0].count, 0);
        if (layers_.size() > 1)
            for (std::int32_t i = layers_[1].rows[0]; i < layers_[1].rows[layers_[1].count]; ++i)
                ++degree_[layers_[1].face[i]];
        for (int d = 0; d < complexes_.dims(); ++d) {
            const Layer& layer = layers_[d];
            Colour* to = (d % 2 ? label_ : colour_).data() + layer.offset;
            const std::int64_t* labels = complexes_.labels[d];
            if (labels) labels += complexes_.cell_ptr[d][g];
            const bool usual = !labels && d < kUsualDims;
            for (std::int32_t i = 0; i < layer.count; ++i) {
                const auto size = static_cast<u64>(d ? layer.rows[i + 1] - layer.rows[i] : degree_[i]);
                to[i] = usual && size < kUsualSizes ? usual_[d][size]
                                                    : first_colour(d, labels ? labels + i : nullptr, size);
            }
        }
    }

    void sweep() {
        const int dims = complexes_.dims();
        for (int d = 2; d < dims; d += 2) tell_faces(layers_[d], above_.data() + layers_[d - 1].offset);
        for (int d = 1; d < dims; d += 2)
            layers_[d].pairs ? pass_on<true>(layers_[d], layers_[d - 1].offset)
                             : pass_on<false>(layers_[d], layers_[d - 1].offset);
        for (int d = 0; d < dims; d += 2)
            listen(layers_[d], d ? message_.data() + layers_[d - 1].offset : nullptr);
    }

    void tell_faces(const Layer& layer, Colour* above) {
        const Colour* colour = colour_.data() + layer.offset;
        for (std::int32_t cell = 0; cell < layer.count; ++cell)
            for (std::int32_t i = layer.rows[cell]; i < layer.rows[cell + 1]; ++i)
                above[layer.face[i]] += colour[cell];
    }

    template <bool pairs>
    void pass_on(const Layer& layer, std::int32_t below) {
        const Colour* label = label_.data() + layer.offset;
        Colour* above = above_.data() + layer.offset;
        Colour* message = message_.data() + layer.offset;
        const Colour* colour = colour_.data() + below;
        Colour* heard = heard_.data() + below;
        const std::int32_t* face = layer.face + layer.rows[0];
        for (std::int32_t cell = 0; cell < layer.count; ++cell) {
            const std::int32_t size = pairs ? 2 : layer.rows[cell + 1] - layer.rows[cell];
            Colour seen = label[cell];
            for (std::int32_t i = 0; i < size; ++i) seen += colour[face[i]];
            const Colour sent = mix(seen, std::exchange(above[cell], {}));
            for (std::int32_t i = 0; i < size; ++i) heard[face[i]] += sent;
            message[cell] = sent;
            face += size;
        }
    }

    void listen(const Layer& layer, const Colour* below) {
        Colour* colour = colour_.data() + layer.offset;
        Colour* heard = heard_.data() + layer.offset;
        for (std::int32_t cell = 0; cell < layer.count; ++cell) {
            Colour all = std::exchange(heard[cell], {});
            if (below)
                for (std::int32_t i = layer.rows[cell]; i < layer.rows[cell + 1]; ++i)
                    all += below[layer.face[i]];
            colour[cell] = mix(colour[cell], all);
        }
    }

    const Complexes& complexes_;
    std::vector<Layer> layers_;
    const UsualColours& usual_ = usual_colours();
    std::int32_t even_ = 0, odd_ = 0;      // cells of even and of odd dimension
    std::vector<Colour> colour_;           // of cells of even dimension
    std::vector<Colour> heard_;            // by them, from their cofaces; zero between sweeps
    std::vector<Colour> label_, message_;  // of cells of odd dimension
    std::vector<Colour> above_;            // the sum of their cofaces' colours; zero between sweeps
    std::vector<std::int32_t> degree_;
    Classes classes_;
};

}  // namespace

Certified certify(const Complexes& complexes, int threads, bool (*poll)()) {
    const std::int64_t n = complexes.count;
    Certified out;
    out.certificates.resize(n);
    const std::int64_t chunk = std::clamp<std::int64_t>(n / (8 * threads), 1, 128);
    Cancellation cancellation(poll);
    const auto make = [&](bool) { return std::make_unique<Certifier>(complexes); };
    for_each_chunk((n + chunk - 1) / chunk, threads, cancellation, make,
                   [&](std::int64_t number, Certifier& certifier) {
                       for (std::int64_t g = number * chunk; g < std::min(n, (number + 1) * chunk); ++g)
                           out.certificates[g] = certifier.run(g);
                   });
    out.cancelled = cancellation.requested();
    return out;
}

}  // namespace cwnet
