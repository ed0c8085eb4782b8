//! The part of an eBPF assembler that the guard needs (RFC 9669; `LD_ABS` and `LD_IND`: section 5.6 and
//! Documentation/bpf/standardization/instruction-set.rst).
//!
//! Registers: R0 the value just loaded, R6 the packet (where `LD_ABS` expects it), R7 the index. A load beyond the
//! packet ends the program with 0 (`TCX_PASS`).

use std::ops::RangeInclusive;

/// One instruction (`struct bpf_insn`): opcode, registers, jump offset, immediate value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Insn {
    code: u8,
    registers: u8,
    offset: i16,
    imm: i32,
}

const _: () = assert!(size_of::<Insn>() == 8 && std::mem::offset_of!(Insn, imm) == 4);

/// A place to jump to.
#[derive(Clone, Copy)]
pub(super) struct Label(usize);

/// Instructions so far, with jumps to labels that may come later.
pub(super) struct Assembler {
    code: Vec<Insn>,
    /// Jump instructions and the label each goes to.
    jumps: Vec<(usize, usize)>,
    /// Position of each label in `code`; `usize::MAX`: not known yet.
    labels: Vec<usize>,
}

const R0: u8 = 0;
const R1: u8 = 1;
const R6: u8 = 6;
const R7: u8 = 7;

const LD_ABS: u8 = 0x20;
const LD_IND: u8 = 0x40;
const WORD: u8 = 0x00;
const HALF: u8 = 0x08;
const BYTE: u8 = 0x10;

const MOV64_REG: u8 = 0xbf;
const MOV64_IMM: u8 = 0xb7;
const AND64_IMM: u8 = 0x57;
const LSH64_IMM: u8 = 0x67;
const JA: u8 = 0x05;
const JEQ_IMM: u8 = 0x15;
const JGT_IMM: u8 = 0x25;
const JSET_IMM: u8 = 0x45;
const JNE_IMM: u8 = 0x55;
const JLT_IMM: u8 = 0xa5;
const JEQ32_IMM: u8 = 0x16;
const JGT32_IMM: u8 = 0x26;
const JNE32_IMM: u8 = 0x56;
const JLT32_IMM: u8 = 0xa6;
const EXIT: u8 = 0x95;

impl Assembler {
    pub(super) fn new() -> Self {
        let mut a = Self {
            code: Vec::new(),
            jumps: Vec::new(),
            labels: Vec::new(),
        };
        a.push(MOV64_REG, R6, R1, 0);
        a
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(usize::MAX);
        Label(self.labels.len() - 1)
    }

    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0] = self.code.len();
    }

    pub(super) fn load_u8(&mut self, at: i32) {
        self.push(LD_ABS | BYTE, 0, 0, at);
    }

    pub(super) fn load_u16(&mut self, at: i32) {
        self.push(LD_ABS | HALF, 0, 0, at);
    }

    pub(super) fn load_u32(&mut self, at: i32) {
        self.push(LD_ABS | WORD, 0, 0, at);
    }

    /// Loads at `at` plus the index.
    pub(super) fn load_u16_indexed(&mut self, at: i32) {
        self.push(LD_IND | HALF, 0, R7, at);
    }

    /// Index = length of the IPv4 header at `at`.
    pub(super) fn ihl_to_index(&mut self, at: i32) {
        self.load_u8(at);
        self.push(AND64_IMM, R0, 0, 15);
        self.push(LSH64_IMM, R0, 0, 2);
        self.push(MOV64_REG, R7, R0, 0);
    }

    pub(super) fn set_index(&mut self, index: i32) {
        self.push(MOV64_IMM, R7, 0, index);
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.push_jump(JA, 0, to);
    }

    pub(super) fn jump_if_eq(&mut self, value: i32, to: Label) {
        self.push_jump(JEQ_IMM, value, to);
    }

    pub(super) fn jump_if_ne(&mut self, value: i32, to: Label) {
        self.push_jump(JNE_IMM, value, to);
    }

    pub(super) fn jump_if_set(&mut self, bits: i32, to: Label) {
        self.push_jump(JSET_IMM, bits, to);
    }

    /// Compares 32 bits: 64-bit comparisons would extend the sign of the immediate value.
    pub(super) fn jump_if_eq32(&mut self, value: u32, to: Label) {
        self.push_jump(JEQ32_IMM, value.cast_signed(), to);
    }

    /// Compares 32 bits, as [`Self::jump_if_eq32`] does.
    pub(super) fn jump_if_ne32(&mut self, value: u32, to: Label) {
        self.push_jump(JNE32_IMM, value.cast_signed(), to);
    }

    /// Compares 32 bits without signs, as [`Self::jump_if_eq32`] does.
    pub(super) fn jump_if_lt32(&mut self, value: u32, to: Label) {
        self.push_jump(JLT32_IMM, value.cast_signed(), to);
    }

    /// Compares 32 bits without signs, as [`Self::jump_if_lt32`] does.
    pub(super) fn jump_if_gt32(&mut self, value: u32, to: Label) {
        self.push_jump(JGT32_IMM, value.cast_signed(), to);
    }

    pub(super) fn jump_if_outside(&mut self, range: &RangeInclusive<u16>, to: Label) {
        self.push_jump(JLT_IMM, i32::from(*range.start()), to);
        self.push_jump(JGT_IMM, i32::from(*range.end()), to);
    }

    pub(super) fn exit(&mut self, value: i32) {
        self.push(MOV64_IMM, R0, 0, value);
        self.push(EXIT, 0, 0, 0);
    }

    /// The program, jumps filled in.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            // Offsets count from the next instruction. Programs here are far below 32767 instructions.
            self.code[at].offset = (self.labels[label] - at - 1) as i16;
        }
        self.code
    }

    fn push(&mut self, code: u8, dst: u8, src: u8, imm: i32) {
        self.code.push(Insn {
            code,
            registers: src << 4 | dst,
            offset: 0,
            imm,
        });
    }

    fn push_jump(&mut self, code: u8, imm: i32, to: Label) {
        self.jumps.push((self.code.len(), to.0));
        self.push(code, R0, 0, imm);
    }
}
