//! A file that is written under another name and gets its own when it is whole: what was interrupted
//! leaves what was there before. Only one program at a time writes it.

use crate::sys::{self, Errno, Fd};
use core::ffi::CStr;
use heapless::Vec;

/// Bytes of the longest path.
const PATH_BYTES: usize = 4096;

/// A file in the making.
pub struct NewFile {
    path: &'static CStr,
    /// The name that it has until it is whole, with its NUL.
    temporary: Vec<u8, PATH_BYTES>,
    /// To write to.
    pub file: Fd,
}

impl NewFile {
    /// Creates `path.partial`, or takes over what an ended program left there.
    ///
    /// # Errors
    /// It cannot be created; another program writes it, or somebody has it for a model:
    /// [`Errno::BUSY`]; it is no file, or has a second name, by which it may be wanted:
    /// [`Errno::EXISTS`].
    pub fn create(path: &'static CStr) -> Result<NewFile, Errno> {
        let mut temporary = Vec::new();
        temporary
            .extend_from_slice(path.to_bytes())
            .and_then(|()| temporary.extend_from_slice(b".partial\0"))
            .map_err(|_| Errno::NAME_TOO_LONG)?;
        let mut new = NewFile {
            path,
            temporary,
            file: Fd::NONE,
        };
        while new.file == Fd::NONE {
            let file = Fd::create_or_keep(new.temporary())?;
            if !file.is_sole_file()? {
                return Err(Errno::EXISTS);
            }
            if file.lock() == Err(Errno::WOULD_BLOCK) {
                return Err(Errno::BUSY);
            }
            // Whoever wrote it may have given it its name, or removed it, before it was locked here.
            if Fd::open_file(new.temporary()).and_then(|named| file.is_same(named)) == Ok(true) {
                file.empty()?;
                new.file = file;
            }
        }
        Ok(new)
    }

    /// The name until it is whole.
    pub fn temporary(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.temporary).unwrap_or_default() // it ends with one
    }

    /// Gives it its name, once its bytes are on the storage, in place of whatever has it.
    ///
    /// # Errors
    /// It cannot have it.
    pub fn put_in_place(&self) -> Result<(), Errno> {
        sys::rename(self.temporary(), self.path)?;
        sync_folder(self.path);
        Ok(())
    }

    /// Removes it.
    pub fn discard(&self) {
        let _ = sys::remove(self.temporary()); // the error that led here is the one to tell
    }
}

/// Waits until the folder of `path` is on the storage, so that a power cut leaves the new name there.
/// Not every file system can.
fn sync_folder(path: &CStr) {
    let bytes = path.to_bytes();
    let folder = match bytes.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => &bytes[..=slash],
        None => b".",
    };
    let mut name = Vec::<u8, PATH_BYTES>::new();
    let is_name = name.extend_from_slice(folder).is_ok() && name.push(0).is_ok();
    let folder = CStr::from_bytes_until_nul(&name).ok().filter(|_| is_name);
    if let Some(folder) = folder.and_then(|folder| Fd::open(folder).ok()) {
        let _ = folder.sync();
    }
}
