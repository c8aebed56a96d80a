// Splits the top of a tree, one level after the other, on all threads (see `bvh.cpp`).
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "bvh.h"
#include "parallel.h"
#include "tree_split.h"

namespace wl {

constexpr int64_t kLeastPiece = 8192;  // items
constexpr double kItemNs = 5;          // what a thread takes for an item at least, in a step

// The top of a tree: inner nodes, and ranges of items whose subtrees are built side by side.
struct Top {
    Range range{};
    std::unique_ptr<Top> left, right;
    std::vector<BinaryNode> nodes;  // of a subtree, with skips that count from its start
    BinaryNode* place = nullptr;    // where they go

    Box box() const {
        if (!left) return box_of(nodes[0]);
        Box b = left->box();
        b.add(right->box());
        return b;
    }
};

// Splits ranges of a level of a tree, in pieces.
class Level {
  public:
    Level(const Splitter& splitter, const std::vector<Top*>& tops, int64_t piece_size) : splitter_(splitter) {
        for (Top* top : tops) {
            top->left.reset(new Top), top->right.reset(new Top);
            if (!splitter.is_binned(top->range)) {
                evenly_.push_back(top);
                continue;
            }
            const size_t first = pieces_.size();
            for (int64_t i = top->range.begin; i < top->range.end; i += piece_size) {
                pieces_.push_back(
                    {binned_.size(), i, std::min(i + piece_size, top->range.end), {}, nullptr, nullptr, {}, {}});
            }
            binned_.push_back({top, Bins(top->range), {}, first, pieces_.size()});
        }
    }

    // False with an exception set where it was interrupted.
    bool split() {
        auto count = [this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                Piece& piece = pieces_[static_cast<size_t>(i)];
                const Binned& of = binned_[piece.of];
                piece.counts.clear(of.bins);
                piece.counts.add(items_of(piece), piece.end - piece.begin, of.bins);
            }
        };
        auto part_piece = [this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                Piece& piece = pieces_[static_cast<size_t>(i)];
                const Binned& of = binned_[piece.of];
                if (of.cut.axis < 0) continue;
                part(items_of(piece), piece.end - piece.begin, of.bins, of.cut, piece.left, piece.right,
                     &piece.left_centers, &piece.right_centers);
            }
        };
        auto split_evenly = [this](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                const Top* top = evenly_[static_cast<size_t>(i)];
                splitter_.split_evenly(top->range, &top->left->range, &top->right->range);
            }
        };
        const double ns = kItemNs * static_cast<double>(kLeastPiece);
        const auto pieces = static_cast<int64_t>(pieces_.size());
        if (!parallel(pieces, count, ns)) return false;
        for (Binned& of : binned_) choose(of);
        if (!parallel(pieces, part_piece, ns)) return false;
        for (const Piece& piece : pieces_) {
            Top* top = binned_[piece.of].top;
            top->left->range.centers.add(piece.left_centers);
            top->right->range.centers.add(piece.right_centers);
        }
        return parallel(static_cast<int64_t>(evenly_.size()), split_evenly, ns);
    }

  private:
    struct Binned {
        Top* top;
        Bins bins;
        Cut cut;
        size_t first, last;  // its pieces
    };
    struct Piece {
        size_t of;
        int64_t begin, end;
        BinCounts counts;
        Item *left, *right;  // where its items go
        Box left_centers, right_centers;
    };

    const Item* items_of(const Piece& piece) const {
        return splitter_.items(binned_[piece.of].top->range.buffer) + piece.begin;
    }

    // Chooses the cut of a range, and finds where the items of each piece go.
    void choose(Binned& of) {
        BinCounts sum;
        sum.clear(of.bins);
        for (size_t k = of.first; k < of.last; ++k) sum.add(pieces_[k].counts, of.bins);
        of.cut = cheapest_cut(sum, of.bins);
        if (of.cut.axis < 0) {
            evenly_.push_back(of.top);
            return;
        }
        Range &left = of.top->left->range, &right = of.top->right->range;
        splitter_.set_sides(of.top->range, sum.before(of.cut.axis, of.cut.bin), &left, &right);
        Item *to_left = splitter_.items(left.buffer) + left.begin,
             *to_right = splitter_.items(right.buffer) + right.begin;
        for (size_t k = of.first; k < of.last; ++k) {
            Piece& piece = pieces_[k];
            piece.left = to_left, piece.right = to_right;
            const int64_t on_left = piece.counts.before(of.cut.axis, of.cut.bin);
            to_left += on_left, to_right += piece.end - piece.begin - on_left;
        }
    }

    const Splitter& splitter_;
    std::vector<Binned> binned_;
    std::vector<Piece> pieces_;
    std::vector<Top*> evenly_;
};

}  // namespace wl
