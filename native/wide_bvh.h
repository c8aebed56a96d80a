// Trees of width 8 over the triangles of a mesh, made of binary ones (`bvh.cpp`) by taking nodes together. Searches
// that are ordered (nearest hit, nearest point) walk them with a vector of boxes or triangles at once
// (`wide_search.cpp`).
#pragma once

#include <cstdint>

namespace wl {

constexpr int kWide = 8;
constexpr int32_t kNoFace = INT32_MIN;

// The children of a node. Those that are not there have empty boxes, which nothing meets.
struct alignas(64) WideNode {
    float lower[3][kWide];
    float upper[3][kWide];
    int32_t child[kWide];   // a wide node, or ~ of a block
    int32_t source[kWide];  // the binary node that the child stands for; -1 for none
};
static_assert(sizeof(WideNode) == 256, "four cache lines");

// Faces that lie together: up to 8 of them, those of one leaf of the wide tree. Lanes without a face hold NaN, which no
// search finds.
struct alignas(64) FaceBlock {
    float corner[9][kWide];  // x, y, z of the first corner, of the second, of the third
    int32_t face[kWide];     // its number, or ~ of it where it is degenerate: never the nearest; kNoFace for none
};
static_assert(sizeof(FaceBlock) == 320, "five cache lines; kernels read 80 words");

constexpr int kBlockWords = sizeof(FaceBlock) / 4;

// The points of a mesh and the corners of its faces. Four numbers are read of each point.
struct Corners {
    const float* points;
    const int32_t* indices;
    int32_t last;     // the number of the last point
    float padded[4];  // it, after which no memory may come
};

// The boxes of a block's faces: corners of three numbers, and one that nobody looks at.
struct alignas(32) FaceBoxes {
    float lower[kWide][4], upper[kWide][4];
};

// A node of a binary tree as `bvh.cpp` makes it.
struct BinaryNode {
    float lower[3], upper[3];
    int32_t skip;   // the node after the subtree; of a leaf, the number of its items
    int32_t first;  // of a leaf, its first item; -1 for inner nodes
};

// A search waits with at most 7 nodes a level. Binary trees are at most this deep (`kUnbalanced` levels of free choice
// or 30 of Morton codes, then halves; groups above), and wide ones no deeper.
constexpr int kMaxDepth = 48 + 32 + 32;
constexpr int kStack = 7 * kMaxDepth + kWide;

}  // namespace wl

// Fills a block with `count` faces, and finds their boxes (`wide_fit.cpp`).
extern "C" void wl_fill_block(wl::FaceBlock* block, const wl::Corners* mesh, const int32_t* faces, int32_t count,
                              wl::FaceBoxes* boxes);

// What compiled kernels call in place of the bodies of `_tree_ray` and `_tree_point` (`builtins/device/mesh.py`): the
// face that is found, -1 for none. `nodes`, `places`, `corners` and `wide` are the words of a mesh's descriptor.
// `wl_next_in_box` is the body of `_bvh_next_in_box` (`builtins/device/bvh.py`).
extern "C" {
int32_t wl_tree_ray(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, float x,
                    float y, float z, float dx, float dy, float dz, float max_t, int32_t root, int32_t any);
void wl_tree_rays(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, int32_t root,
                  int32_t any, const float* rays, int32_t width, uint64_t lanes, int32_t* faces);
int32_t wl_tree_point(uint64_t nodes, uint64_t places, uint64_t corners, uint64_t wide, int32_t node_count, float x,
                      float y, float z, float max_dist);
int64_t wl_next_in_box(uint64_t nodes, uint64_t boxes, int32_t node, int32_t stop, int32_t current, int32_t end,
                       float x0, float y0, float z0, float x1, float y1, float z1);
}
