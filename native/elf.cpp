#include "elf.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "debugger.h"
#include "elf_format.h"
#include "platform.h"

#if defined(__x86_64__) && (defined(__linux__) || defined(_WIN32))
#define WL_LOADS_ELF 1
#endif

namespace wl {

namespace {

// Code in this process, mapped as long as the object lives.
struct Code {
    PyObject_HEAD void* memory;
    size_t size;
    PyObject* entries;  // name -> address
    char* image;        // the object as debuggers read it, if it has lines of source
    void* announced;
};

#ifdef WL_LOADS_ELF

constexpr size_t kStub = 16;  // jmp *[rip + 0], then the address

constexpr size_t kLargest = size_t{1} << 31;  // distances within the code take 32 bits

size_t align_up(size_t at, size_t to) { return to > 1 ? (at + to - 1) / to * to : at; }

// The name of a symbol, which is UTF-8 unless the object is damaged.
Ref text_of(const char* name) {
    return Ref(PyUnicode_DecodeUTF8(name, static_cast<Py_ssize_t>(std::strlen(name)), "surrogateescape"));
}

// Loads an object, or refuses it for one of two reasons: it is damaged, or it needs more than this loader does. All
// that is read here is checked; what the instructions do is not.
class Loader {
  public:
    Loader(const char* data, size_t size, PyObject* symbols) : data_(data), size_(size), symbols_(symbols) {}
    ~Loader() {
        if (memory_) unmap_pages(memory_, mapped_);
    }
    Loader(const Loader&) = delete;
    Loader& operator=(const Loader&) = delete;

    // False with the reason in `why`, and whether the object is damaged, so that no other loader may try it.
    bool load() {
        return read_headers() && read_tables() && is_whole() && is_plain() && map() && resolve() && relocate() &&
               seal();
    }
    const std::string& why() const { return why_; }
    bool is_damaged() const { return damaged_; }

    // Gives the mapping and the global functions that the object defines to `code`.
    bool hand_over(Code* code) {
        for (size_t i = 1; i < symbol_count_; ++i) {
            const Elf64_Sym& symbol = table_[i];
            if (binding_of(symbol) != STB_GLOBAL || !is_code(symbol)) continue;
            const Ref name = text_of(name_of(symbol));
            const Ref address(PyLong_FromUnsignedLongLong(values_[i]));
            if (!name || !address || PyDict_SetItem(code->entries, name.get(), address.get()) != 0) return false;
        }
        if (has_lines_) announce(code);
        code->memory = std::exchange(memory_, nullptr);
        code->size = mapped_;
        return true;
    }

  private:
    // Shows debuggers a copy of the object that says where its sections are, and names its functions to perf.
    void announce(Code* code) const {
        code->image = static_cast<char*>(std::malloc(size_));
        if (!code->image) return;
        std::memcpy(code->image, data_, size_);
        auto* sections = reinterpret_cast<Elf64_Shdr*>(code->image + at<Elf64_Ehdr>(0)->e_shoff);
        for (size_t i = 0; i < section_count_; ++i) {
            if (!(sections[i].sh_flags & SHF_ALLOC)) continue;
            sections[i].sh_addr = reinterpret_cast<uint64_t>(memory_) + offsets_[i];
        }
        code->announced = announce_code(code->image, size_);
        for (size_t i = 1; i < symbol_count_; ++i) {
            if (type_of(table_[i]) != STT_FUNC || table_[i].st_shndx == SHN_UNDEF) continue;
            name_for_perf(name_of(table_[i]), values_[i], table_[i].st_size);
        }
    }

    bool refuse(const char* reason) {
        why_ = reason;
        return false;
    }

    bool refuse_damaged(const char* reason) {
        damaged_ = true;
        return refuse(reason);
    }

    // Whether a symbol is a place in the object's instructions, where execution may begin.
    bool is_code(const Elf64_Sym& symbol) const {
        if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= section_count_) return false;
        const Elf64_Shdr& section = sections_[symbol.st_shndx];
        constexpr uint64_t kExecuted = SHF_ALLOC | SHF_EXECINSTR;
        return (section.sh_flags & kExecuted) == kExecuted && symbol.st_value < section.sh_size;
    }

    // Null where `count` of T do not lie within the file, or not as T is aligned.
    template <typename T>
    const T* at(size_t offset, size_t count = 1) const {
        if (offset > size_ || offset % alignof(T) || count > (size_ - offset) / sizeof(T)) return nullptr;
        return reinterpret_cast<const T*>(data_ + offset);
    }

    // Null where a section has no name within the table of names.
    const char* section_name(const Elf64_Shdr& section) const {
        const uint16_t index = at<Elf64_Ehdr>(0)->e_shstrndx;
        if (index >= section_count_ || sections_[index].sh_type != SHT_STRTAB) return nullptr;
        const Elf64_Shdr& strings = sections_[index];
        const char* names = at<char>(strings.sh_offset, strings.sh_size);
        if (!names || section.sh_name >= strings.sh_size || names[strings.sh_size - 1] != 0) return nullptr;
        return names + section.sh_name;
    }

    const char* name_of(const Elf64_Sym& symbol) const {
        return symbol.st_name < names_size_ ? names_ + symbol.st_name : "";
    }

    bool read_headers() {
        const Elf64_Ehdr* head = at<Elf64_Ehdr>(0);
        if (!head || std::memcmp(head->e_ident, kElfMagic, sizeof kElfMagic) != 0 ||
            head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB || head->e_type != ET_REL ||
            head->e_machine != EM_X86_64) {
            return refuse_damaged("it is no relocatable object for x86-64");
        }
        section_count_ = head->e_shnum;
        sections_ = head->e_shentsize == sizeof(Elf64_Shdr) ? at<Elf64_Shdr>(head->e_shoff, section_count_) : nullptr;
        return sections_ || refuse_damaged("it is truncated");
    }

    bool read_tables() {
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            const char* name = section_name(section);
            if (!name) return refuse_damaged("a section has no name");
            const bool lies_in_memory =
                section.sh_flags & SHF_ALLOC;  // LLVM's linker asserts that it is a power of two
            if ((section.sh_addralign & (section.sh_addralign - 1)) || (lies_in_memory && !section.sh_addralign)) {
                return refuse_damaged("a section's alignment");
            }
            if (section.sh_type != SHT_NOBITS && !at<char>(section.sh_offset, section.sh_size)) {
                return refuse_damaged("it is truncated");
            }
            has_lines_ |= section.sh_type == SHT_PROGBITS && std::strcmp(name, ".debug_line") == 0;
            if (section.sh_type == SHT_SYMTAB && !read_symbols(section)) return false;
        }
        const bool whole = table_ && names_ && names_size_ && names_[names_size_ - 1] == 0;
        return whole || refuse_damaged("it has no symbols");
    }

    bool read_symbols(const Elf64_Shdr& section) {
        if (table_ || section.sh_link >= section_count_ || section.sh_entsize != sizeof(Elf64_Sym)) {
            return refuse_damaged("its table of symbols");
        }
        symbol_count_ = section.sh_size / sizeof(Elf64_Sym);
        table_ = at<Elf64_Sym>(section.sh_offset, symbol_count_);
        const Elf64_Shdr& strings = sections_[section.sh_link];
        names_ = strings.sh_type == SHT_STRTAB ? at<char>(strings.sh_offset, strings.sh_size) : nullptr;
        names_size_ = strings.sh_size;
        return true;
    }

    // Whether symbols and relocations name only what there is: LLVM's linker, which may get the object next, ends the
    // process over some that do not.
    bool is_whole() {
        for (size_t i = 0; i < symbol_count_; ++i) {
            const Elf64_Sym& symbol = table_[i];
            if (symbol.st_name >= names_size_) return refuse_damaged("a symbol has no name");
            if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx == SHN_ABS) continue;
            if (symbol.st_shndx >= section_count_ || symbol.st_value > sections_[symbol.st_shndx].sh_size) {
                return refuse_damaged("a symbol out of range");
            }
        }
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            if (section.sh_type == SHT_RELA && !are_relocations(section)) return false;
        }
        return true;
    }

    bool are_relocations(const Elf64_Shdr& section) {
        const size_t count = section.sh_size / sizeof(Elf64_Rela);
        const Elf64_Rela* entries = at<Elf64_Rela>(section.sh_offset, count);
        if (!entries || section.sh_info >= section_count_ || section.sh_entsize != sizeof(Elf64_Rela)) {
            return refuse_damaged("its relocations");
        }
        const uint64_t size = sections_[section.sh_info].sh_size;
        for (size_t k = 0; k < count; ++k) {
            if (symbol_of(entries[k]) >= symbol_count_ || type_of(entries[k]) >= kRelocationTypes ||
                entries[k].r_offset >= size) {
                return refuse_damaged("a relocation out of range");
            }
        }
        return true;
    }

    // Whether the object needs no more than this loader does.
    bool is_plain() {
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            const bool kept = section.sh_size && (section.sh_flags & SHF_ALLOC);
            if (kept && (section.sh_flags & (SHF_WRITE | SHF_TLS))) return refuse("writable data");
            if (section.sh_type == SHT_REL) return refuse("relocations without addends");
        }
        return true;
    }

    // Chooses a place for each section; false where no loader could.
    bool place(size_t page) {
        offsets_.assign(section_count_, 0);
        size_t end = 0;
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            if (!(section.sh_flags & SHF_ALLOC)) continue;
            const uint64_t alignment = section.sh_addralign;
            if (alignment > page) return refuse_damaged("a section's alignment");
            if (section.sh_size && section.sh_type == SHT_NOBITS) return refuse_damaged("a section without content");
            end = align_up(end, alignment);
            offsets_[i] = end;
            end += section.sh_size;  // at most the file's size
            if (end > kLargest) return refuse_damaged("it is too large");
        }
        stubs_ = align_up(end, kStub);
        mapped_ = align_up(stubs_ + symbol_count_ * kStub, page);
        return mapped_ <= kLargest || refuse_damaged("it is too large");
    }

    bool map() {
        if (!place(page_size())) return false;
        memory_ = static_cast<char*>(map_pages(mapped_));
        if (!memory_) return refuse("out of memory");
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0) continue;
            std::memcpy(memory_ + offsets_[i], at<char>(section.sh_offset, section.sh_size), section.sh_size);
        }
        return true;
    }

    bool resolve() {
        values_.assign(symbol_count_, 0);
        for (size_t i = 1; i < symbol_count_; ++i) {
            const Elf64_Sym& symbol = table_[i];
            if (symbol.st_shndx == SHN_ABS) {
                values_[i] = symbol.st_value;
            } else if (symbol.st_shndx == SHN_UNDEF) {
                values_[i] = outside(name_of(symbol));
                if (!values_[i]) {
                    why_ = std::string("undefined symbol ") + name_of(symbol);
                    return false;
                }
            } else {
                values_[i] = reinterpret_cast<uint64_t>(memory_) + offsets_[symbol.st_shndx] + symbol.st_value;
            }
            write_stub(i);
        }
        return true;
    }

    // The address of a function of the runtime or of a library, 0 if there is none.
    uint64_t outside(const char* name) const {
        const Ref key = text_of(name);
        PyObject* given = key ? PyDict_GetItemWithError(symbols_, key.get()) : nullptr;
        if (given) return PyLong_AsUnsignedLongLong(given);
        return reinterpret_cast<uint64_t>(find_function(name));
    }

    // A jump to symbol `i`, whose second half serves as its entry in the global offset table.
    void write_stub(size_t i) {
        static constexpr uint8_t kJump[8] = {0xff, 0x25, 0x02, 0, 0, 0, 0x90, 0x90};
        std::memcpy(memory_ + stubs_ + i * kStub, kJump, sizeof kJump);
        std::memcpy(memory_ + stubs_ + i * kStub + 8, &values_[i], 8);
    }

    bool relocate() {
        for (size_t i = 0; i < section_count_; ++i) {
            const Elf64_Shdr& section = sections_[i];
            if (section.sh_type != SHT_RELA) continue;
            const Elf64_Shdr& target = sections_[section.sh_info];
            if (!(target.sh_flags & SHF_ALLOC)) continue;
            const size_t count = section.sh_size / sizeof(Elf64_Rela);
            const Elf64_Rela* entries = at<Elf64_Rela>(section.sh_offset, count);

            for (size_t k = 0; k < count; ++k) {
                if (!apply(entries[k], target, offsets_[section.sh_info])) return false;
            }
        }
        return true;
    }

    bool apply(const Elf64_Rela& entry, const Elf64_Shdr& target, size_t offset) {
        const size_t i = symbol_of(entry);
        const uint32_t type = type_of(entry);
        const size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
        if (target.sh_size - entry.r_offset < width) return refuse_damaged("a relocation out of range");
        char* where = memory_ + offset + entry.r_offset;
        const uint64_t place = reinterpret_cast<uint64_t>(where);
        const uint64_t addend = static_cast<uint64_t>(entry.r_addend);
        const uint64_t stub = reinterpret_cast<uint64_t>(memory_) + stubs_ + i * kStub;
        switch (type) {
            case R_X86_64_64:
                return put<uint64_t>(where, values_[i] + addend);
            case R_X86_64_PC64:
                return put<uint64_t>(where, values_[i] + addend - place);
            case R_X86_64_PC32:
                return put_near(where, values_[i] + addend - place);
            case R_X86_64_PLT32:
                return put_near(where, (table_[i].st_shndx == SHN_UNDEF ? stub : values_[i]) + addend - place);
            case R_X86_64_GOTPCREL:
            case R_X86_64_GOTPCRELX:
            case R_X86_64_REX_GOTPCRELX:
                return put_near(where, stub + 8 + addend - place);
            default:
                why_ = "relocation of type " + std::to_string(type);
                return false;
        }
    }

    template <typename T>
    static bool put(char* where, T value) {
        std::memcpy(where, &value, sizeof value);
        return true;
    }

    bool put_near(char* where, uint64_t distance) {
        const int64_t wide = static_cast<int64_t>(distance);
        if (wide != static_cast<int32_t>(wide)) return refuse("a relocation that does not reach");
        return put<int32_t>(where, static_cast<int32_t>(wide));
    }

    bool seal() { return make_executable(memory_, mapped_) || refuse("memory can't be made executable"); }

    const char* data_;
    size_t size_;
    PyObject* symbols_;
    std::string why_;
    bool damaged_ = false;
    const Elf64_Shdr* sections_ = nullptr;
    size_t section_count_ = 0;
    const Elf64_Sym* table_ = nullptr;
    size_t symbol_count_ = 0;
    const char* names_ = nullptr;
    size_t names_size_ = 0;
    std::vector<size_t> offsets_;   // of each section in the mapping
    std::vector<uint64_t> values_;  // the address of each symbol
    size_t stubs_ = 0;
    char* memory_ = nullptr;
    size_t mapped_ = 0;
    bool has_lines_ = false;
};

#endif  // WL_LOADS_ELF

void code_dealloc(PyObject* object) {
    Code* code = reinterpret_cast<Code*>(object);
    forget_code(code->announced);
    std::free(code->image);
#ifdef WL_LOADS_ELF
    if (code->memory) unmap_pages(code->memory, code->size);
#endif
    Py_XDECREF(code->entries);
    Py_TYPE(object)->tp_free(object);
}

PyObject* code_address(PyObject* object, PyObject* name) {
    PyObject* address = PyDict_GetItemWithError(reinterpret_cast<Code*>(object)->entries, name);
    if (!address && !PyErr_Occurred()) PyErr_SetObject(PyExc_KeyError, name);
    Py_XINCREF(address);
    return address;
}

PyObject* code_has(PyObject* object, PyObject* name) {
    const int found = PyDict_Contains(reinterpret_cast<Code*>(object)->entries, name);
    return found < 0 ? nullptr : PyBool_FromLong(found);
}

PyMethodDef code_methods[] = {
    {"has", code_has, METH_O, "has($self, name, /)\n--\n\nReturn whether the object defines a function."},
    {"address", code_address, METH_O, "address($self, name, /)\n--\n\nReturn the address of a function of the object."},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject CodeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

PyObject* load_object(PyObject*, PyObject* args) {
    const char* data;
    Py_ssize_t size;
    PyObject* symbols;
    if (!PyArg_ParseTuple(args, "y#O!:load_object", &data, &size, &PyDict_Type, &symbols)) return nullptr;
#ifdef WL_LOADS_ELF
    // The bytes of a Python object may lie at any address; the headers are read in place.
    std::vector<uint64_t> aligned((static_cast<size_t>(size) + 7) / 8);
    if (size) std::memcpy(aligned.data(), data, static_cast<size_t>(size));
    Loader loader(reinterpret_cast<const char*>(aligned.data()), static_cast<size_t>(size), symbols);
    if (!loader.load()) {
        if (PyErr_Occurred()) return nullptr;
        if (!loader.is_damaged()) return text_of(loader.why().c_str()).release();
        return PyErr_Format(PyExc_RuntimeError, "the object code is damaged: %s", loader.why().c_str());
    }
    Ref object(CodeType.tp_alloc(&CodeType, 0));
    if (!object) return nullptr;
    Code* code = reinterpret_cast<Code*>(object.get());
    code->entries = PyDict_New();
    if (!code->entries || !loader.hand_over(code)) return nullptr;
    return object.release();
#else
    return PyUnicode_FromString("objects of this platform are loaded through LLVM");
#endif
}

PyMethodDef functions[] = {
    {"load_object", load_object, METH_VARARGS,
     "load_object($module, data, symbols, /)\n--\n\nLoad a relocatable object; returns its Code, or a str that says "
     "what it needs that only LLVM's linker does. Raises RuntimeError where it is damaged."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool register_elf(PyObject* module) {
    CodeType.tp_name = "warp_like._native.Code";
    CodeType.tp_basicsize = sizeof(Code);
    CodeType.tp_flags = Py_TPFLAGS_DEFAULT;
    CodeType.tp_doc = "Machine code in this process; unmapped with the last reference.";
    CodeType.tp_dealloc = code_dealloc;
    CodeType.tp_methods = code_methods;
    if (PyType_Ready(&CodeType) != 0) return false;
    Py_INCREF(&CodeType);
    return PyModule_AddObject(module, "Code", reinterpret_cast<PyObject*>(&CodeType)) == 0 &&
           PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace wl
