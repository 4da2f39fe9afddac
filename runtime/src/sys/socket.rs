//! Datagrams to a socket of this machine, for which nobody waits; and the variables that name it.

use super::{Errno, Fd, check};
use core::ffi::{CStr, c_char, c_int};
use core::mem::offset_of;

/// Where datagrams are sent to.
pub struct DatagramSocket {
    fd: Fd,
    address: libc::sockaddr_un,
    /// Bytes of `address` that count.
    len: libc::socklen_t,
}

impl DatagramSocket {
    /// To the socket at a path, or, after `@`, to one of the abstract names of unix(7). Whether
    /// there is one shows when something is sent.
    ///
    /// # Errors
    /// [`Errno::INVALID`] if it is neither, [`Errno::NAME_TOO_LONG`], or the kernel has no sockets.
    pub fn to(name: &CStr) -> Result<DatagramSocket, Errno> {
        let bytes = name.to_bytes();
        let is_abstract = match bytes {
            [b'/', _, ..] => false,
            [b'@', _, ..] => true,
            _ => return Err(Errno::INVALID),
        };
        let mut address = libc::sockaddr_un {
            sun_family: libc::AF_UNIX as libc::sa_family_t,
            sun_path: [0; 108],
        };
        // The zero that ends a path counts, and so does the one that an abstract name starts with.
        let len = bytes.len() + usize::from(!is_abstract);
        if len > address.sun_path.len() {
            return Err(Errno::NAME_TOO_LONG);
        }
        for (place, &byte) in address.sun_path.iter_mut().zip(bytes) {
            *place = byte as c_char;
        }
        if is_abstract {
            address.sun_path[0] = 0;
        }
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::socket(libc::AF_UNIX, kind, 0) };
        check(fd as isize)?;
        Ok(DatagramSocket {
            fd: Fd(fd),
            address,
            len: (offset_of!(libc::sockaddr_un, sun_path) + len) as libc::socklen_t,
        })
    }

    /// Sends a datagram, or nothing of it.
    ///
    /// # Errors
    /// [`Errno::WOULD_BLOCK`] if there is no room for it; or nobody is there.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        const FLAGS: c_int = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the kernel reads `bytes`, and of `address` the first `len` bytes, which it has.
        let sent = unsafe {
            libc::sendto(
                self.fd.0,
                bytes.as_ptr().cast(),
                bytes.len(),
                FLAGS,
                (&raw const self.address).cast(),
                self.len,
            )
        };
        check(sent).map(|_| ())
    }
}

/// The value of a variable of the environment.
pub fn environment(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name is NUL-terminated.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: a value is NUL-terminated, and stays as it is: nothing here changes the environment.
    Some(unsafe { CStr::from_ptr(value) })
}

/// This process's number.
pub fn process_id() -> u32 {
    // SAFETY: no memory is passed.
    unsafe { libc::getpid() }.unsigned_abs()
}
