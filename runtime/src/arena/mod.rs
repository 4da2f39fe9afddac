//! One reservation, split by the plan into three scopes.
//!
//! - [`Model`]: packed weights, tokenizer index, tables. Opened once, at load, then sealed.
//! - [`Kv`]: the keys and values of one conversation, and its token ids.
//! - [`Forward`]: scratch of one step. Empty again each time it is opened.
//!
//! A scope is a type, so passing one where another is wanted does not compile, and a slice from
//! [`Region::open`] borrows the region, so it cannot outlive its step. Allocation is a bump of
//! [`ALIGNMENT`] bytes' granularity; nothing is ever freed one by one.

#![allow(unsafe_code)] // hands out disjoint parts of one block

mod claim;

pub use claim::{Chunks, ColumnRange, Columns, Trios};

use crate::trace::{ScopeName, Trace};
use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use kernels_asm::vector::Q8Tile;

/// Every allocation starts at a multiple of this: a cache line.
pub const ALIGNMENT: usize = 64;

/// Bytes that an allocation of `bytes` takes.
pub const fn rounded(bytes: usize) -> usize {
    bytes.next_multiple_of(ALIGNMENT)
}

/// Tag of the scope that lives as long as the program.
pub enum Model {}
/// Tag of the scope that lives as long as a conversation.
pub enum Kv {}
/// Tag of the scope that lives as long as a step.
pub enum Forward {}

/// A scope had less room than was asked of it: the plan and the code disagree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArenaError {
    /// Bytes asked for.
    pub wanted: usize,
    /// Bytes left.
    pub left: usize,
}

/// Plain numbers: every bit pattern is a value.
///
/// # Safety
/// Only for types without padding, references, or invalid bit patterns.
pub unsafe trait Number: Copy + 'static {}
// SAFETY: integers and floats have no padding and no invalid bit pattern.
unsafe impl Number for u8 {}
// SAFETY: as above.
unsafe impl Number for u16 {}
// SAFETY: as above.
unsafe impl Number for u32 {}
// SAFETY: as above.
unsafe impl Number for u64 {}
// SAFETY: as above.
unsafe impl Number for f32 {}
// SAFETY: arrays of integers, 16 bytes before 256, the greater alignment first.
unsafe impl Number for Q8Tile {}

/// The part of the reservation that belongs to scope `S`.
pub struct Region<'m, S> {
    base: NonNull<u8>,
    len: usize,
    name: ScopeName,
    trace: Trace<'m>,
    scope: PhantomData<(&'m mut [u8], S)>,
}

/// An open scope: allocations live for `'a`, and so at most until the region is opened again. Its
/// end, when it is dropped, is reported.
pub struct Open<'a, S> {
    base: NonNull<u8>,
    len: usize,
    name: ScopeName,
    trace: Trace<'a>,
    used: Cell<usize>,
    scope: PhantomData<(&'a mut [u8], S)>,
}

/// The three scopes of one reservation.
pub type Scopes<'m> = (Region<'m, Model>, Region<'m, Kv>, Region<'m, Forward>);

/// Cuts `block` into the three scopes. `block` starts at a multiple of [`ALIGNMENT`].
///
/// # Errors
/// The block is shorter than the two fixed scopes; what is left is the Forward scope.
pub fn split(
    block: &mut [u8],
    model_bytes: usize,
    kv_bytes: usize,
) -> Result<Scopes<'_>, ArenaError> {
    split_traced(block, model_bytes, kv_bytes, Trace::OFF)
}

/// As [`split`]; the scopes report what they hand out, and when they end.
///
/// # Errors
/// Those of [`split`].
pub fn split_traced<'m>(
    block: &'m mut [u8],
    model_bytes: usize,
    kv_bytes: usize,
    trace: Trace<'m>,
) -> Result<Scopes<'m>, ArenaError> {
    assert!(
        block.as_ptr().addr().is_multiple_of(ALIGNMENT),
        "the reservation is page-aligned"
    );
    let (model_bytes, kv_bytes) = (rounded(model_bytes), rounded(kv_bytes));
    let wanted = model_bytes.saturating_add(kv_bytes);
    if wanted > block.len() {
        return Err(ArenaError {
            wanted,
            left: block.len(),
        });
    }
    let (model, rest) = block.split_at_mut(model_bytes);
    let (kv, forward) = rest.split_at_mut(kv_bytes);
    Ok((
        Region::new(model, ScopeName::Model, trace),
        Region::new(kv, ScopeName::Kv, trace),
        Region::new(forward, ScopeName::Forward, trace),
    ))
}

impl<'m, S> Region<'m, S> {
    fn new(part: &'m mut [u8], name: ScopeName, trace: Trace<'m>) -> Self {
        let len = part.len();
        Region {
            base: NonNull::from(part).cast(),
            len,
            name,
            trace,
            scope: PhantomData,
        }
    }

    /// Opens the scope empty. It can be opened again only when what this returns is gone.
    pub fn open(&mut self) -> Open<'_, S> {
        Open {
            base: self.base,
            len: self.len,
            name: self.name,
            trace: self.trace,
            used: Cell::new(0),
            scope: PhantomData,
        }
    }
}

impl<'m> Region<'m, Model> {
    /// Opens the Model scope for good: what it hands out lives as long as the reservation.
    pub fn open_once(self) -> Open<'m, Model> {
        Open {
            base: self.base,
            len: self.len,
            name: self.name,
            trace: self.trace,
            used: Cell::new(0),
            scope: PhantomData,
        }
    }
}

impl<'a, S> Open<'a, S> {
    /// `len` numbers: zero in a fresh reservation, else what was left there.
    ///
    /// # Errors
    /// The scope is full.
    pub fn alloc<T: Number>(&self, len: usize) -> Result<&'a mut [T], ArenaError> {
        const { assert!(align_of::<T>() <= ALIGNMENT) };
        let wanted = len
            .checked_mul(size_of::<T>())
            .and_then(|bytes| bytes.checked_next_multiple_of(ALIGNMENT))
            .unwrap_or(usize::MAX);
        let start = self.take(wanted)?;
        // SAFETY: `start..start + wanted` is inside the block (`take` checks), is aligned (the
        // block and every allocation are multiples of ALIGNMENT), was handed out by no other call
        // (`used` only grows, and `open` needs the last `Open` gone), and holds valid values
        // (`Number`; the memory is initialised, being a slice).
        Ok(unsafe { core::slice::from_raw_parts_mut(self.base.add(start).cast().as_ptr(), len) })
    }

    /// Where the next `wanted` bytes start. Not part of [`alloc`](Self::alloc), which exists once
    /// for each type of number and stands in many places.
    #[inline(never)]
    fn take(&self, wanted: usize) -> Result<usize, ArenaError> {
        let start = self.used.get();
        let left = self.len - start;
        if wanted > left {
            return Err(ArenaError { wanted, left });
        }
        self.used.set(start + wanted);
        self.trace.alloc(self.name, wanted, start + wanted);
        Ok(start)
    }

    /// Bytes handed out, with their rounding.
    pub fn used(&self) -> usize {
        self.used.get()
    }
}

impl<S> Drop for Open<'_, S> {
    fn drop(&mut self) {
        self.trace.reset(self.name);
    }
}
