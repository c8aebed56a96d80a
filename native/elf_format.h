// The parts of the ELF-64 format that relocatable objects for x86-64 use, by the names of the System V ABI and its
// supplement for x86-64. Systems without ELF have no <elf.h>, and the compiler makes such objects there, too.
#pragma once

#include <cstdint>

namespace wl {

constexpr char kElfMagic[] = {0x7f, 'E', 'L', 'F'};
constexpr int EI_CLASS = 4, EI_DATA = 5;  // places in e_ident
constexpr unsigned char ELFCLASS64 = 2, ELFDATA2LSB = 1;
constexpr uint16_t ET_REL = 1, EM_X86_64 = 62;

struct Elf64_Ehdr {
    unsigned char e_ident[16];
    uint16_t e_type;
    uint16_t e_machine;
    uint32_t e_version;
    uint64_t e_entry;
    uint64_t e_phoff;
    uint64_t e_shoff;
    uint32_t e_flags;
    uint16_t e_ehsize;
    uint16_t e_phentsize;
    uint16_t e_phnum;
    uint16_t e_shentsize;
    uint16_t e_shnum;
    uint16_t e_shstrndx;
};

constexpr uint16_t SHN_UNDEF = 0, SHN_ABS = 0xfff1;
constexpr uint32_t SHT_PROGBITS = 1, SHT_SYMTAB = 2, SHT_STRTAB = 3, SHT_RELA = 4, SHT_NOBITS = 8, SHT_REL = 9;
constexpr uint64_t SHF_WRITE = 0x1, SHF_ALLOC = 0x2, SHF_EXECINSTR = 0x4, SHF_TLS = 0x400;

struct Elf64_Shdr {
    uint32_t sh_name;
    uint32_t sh_type;
    uint64_t sh_flags;
    uint64_t sh_addr;
    uint64_t sh_offset;
    uint64_t sh_size;
    uint32_t sh_link;
    uint32_t sh_info;
    uint64_t sh_addralign;
    uint64_t sh_entsize;
};

constexpr unsigned char STB_GLOBAL = 1, STT_FUNC = 2;

struct Elf64_Sym {
    uint32_t st_name;
    unsigned char st_info;
    unsigned char st_other;
    uint16_t st_shndx;
    uint64_t st_value;
    uint64_t st_size;
};

constexpr unsigned char binding_of(const Elf64_Sym& symbol) { return symbol.st_info >> 4; }
constexpr unsigned char type_of(const Elf64_Sym& symbol) { return symbol.st_info & 0xf; }

constexpr uint32_t R_X86_64_64 = 1, R_X86_64_PC32 = 2, R_X86_64_PLT32 = 4, R_X86_64_GOTPCREL = 9, R_X86_64_PC64 = 24,
                   R_X86_64_GOTPCRELX = 41, R_X86_64_REX_GOTPCRELX = 42;
constexpr uint32_t kRelocationTypes = 43;  // those of newer processors, from 43 on, are never made for kernels

struct Elf64_Rela {
    uint64_t r_offset;
    uint64_t r_info;
    int64_t r_addend;
};

constexpr uint32_t symbol_of(const Elf64_Rela& entry) { return static_cast<uint32_t>(entry.r_info >> 32); }
constexpr uint32_t type_of(const Elf64_Rela& entry) { return static_cast<uint32_t>(entry.r_info); }

}  // namespace wl
