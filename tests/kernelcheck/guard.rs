//! Buffers against an unmapped page, so that a kernel that reads or writes outside one is caught.
#![allow(unsafe_code)] // maps and protects pages

use std::ptr;

/// What the accessible bytes around a buffer hold.
const CANARY: u8 = 0xa5;

/// Where in its pages a buffer lies.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// So many bytes behind an unmapped page.
    Front(usize),
    /// So many bytes before an unmapped page.
    Back(usize),
}

/// A buffer in pages of its own, between two unmapped ones.
pub struct Guarded {
    /// The accessible pages.
    pages: *mut u8,
    size: usize,
    /// The buffer in them.
    start: usize,
    len: usize,
}

impl Guarded {
    /// A buffer of `len` bytes, all of them and those around it the canary.
    pub fn new(len: usize, place: Place) -> Self {
        let page = page_size();
        let (Place::Front(distance) | Place::Back(distance)) = place;
        let size = (len + distance).next_multiple_of(page);
        let (protection, flags) = (libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping, wherever the system likes; it replaces none.
        let mapping =
            unsafe { libc::mmap(ptr::null_mut(), size + 2 * page, protection, flags, -1, 0) };
        assert_ne!(
            mapping,
            libc::MAP_FAILED,
            "mmap of {size} bytes and two pages"
        );
        // SAFETY: the mapping is `size` and two pages long, so all but the first and the last
        // page are inside it. They are given access before they are written.
        let pages = unsafe {
            let pages = mapping.cast::<u8>().add(page);
            protect(pages, size, libc::PROT_READ | libc::PROT_WRITE);
            pages.write_bytes(CANARY, size);
            pages
        };
        let start = match place {
            Place::Front(distance) => distance,
            Place::Back(distance) => size - distance - len,
        };
        Self {
            pages,
            size,
            start,
            len,
        }
    }

    /// A buffer with these bytes, which no one can write to from here on.
    pub fn read_only(bytes: &[u8], place: Place) -> Self {
        let mut buffer = Self::new(bytes.len(), place);
        buffer.bytes_mut().copy_from_slice(bytes);
        // SAFETY: the pages are this buffer's own; it gives out no `&mut` after this.
        unsafe { protect(buffer.pages, buffer.size, libc::PROT_READ) };
        buffer
    }

    /// The address of the buffer.
    pub fn address(&self) -> *mut u8 {
        self.pages.wrapping_add(self.start)
    }

    /// The bytes of a buffer that can be written to.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: `new` mapped and filled `size` bytes at `pages`, of which this is a part.
        unsafe { std::slice::from_raw_parts_mut(self.address(), self.len) }
    }

    /// The bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.accessible()[self.start..self.start + self.len]
    }

    /// Whether the canaries around the buffer are as they were.
    pub fn is_intact(&self) -> bool {
        let (before, rest) = self.accessible().split_at(self.start);
        before
            .iter()
            .chain(&rest[self.len..])
            .all(|&byte| byte == CANARY)
    }

    fn accessible(&self) -> &[u8] {
        // SAFETY: `new` mapped and filled `size` bytes at `pages`.
        unsafe { std::slice::from_raw_parts(self.pages, self.size) }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        let page = page_size();
        // SAFETY: this is the mapping that `new` made, and no reference into it is left.
        let result =
            unsafe { libc::munmap(self.pages.wrapping_sub(page).cast(), self.size + 2 * page) };
        assert_eq!(result, 0, "munmap");
    }
}

/// # Safety
/// The pages are a mapping of the caller's, and the access taken away is not used again.
unsafe fn protect(pages: *mut u8, size: usize, protection: libc::c_int) {
    // SAFETY: the caller's mapping.
    let result = unsafe { libc::mprotect(pages.cast(), size, protection) };
    assert_eq!(result, 0, "mprotect");
}

fn page_size() -> usize {
    // SAFETY: asks the system for a number.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize }
}
