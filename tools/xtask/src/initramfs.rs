//! The file system that a kernel starts with, of one program.
//!
//! The format is the kernel's own (Documentation/driver-api/early-userspace/buffer-format.rst): a
//! cpio archive of the `newc` kind, compressed by gzip. Its bytes depend on the program alone.

use std::io::Write;

use anyhow::Result;
use flate2::Compression;
use flate2::write::GzEncoder;

/// Folders that the program mounts file systems on.
const FOLDERS: [&str; 4] = ["dev", "proc", "sys", "tmp"];
/// The device that the kernel opens for the first process: character device 5, 1.
const CONSOLE: (u32, u32) = (5, 1);

const FOLDER_MODE: u32 = 0o040_755;
const PROGRAM_MODE: u32 = 0o100_755;
const DEVICE_MODE: u32 = 0o020_600;

/// The archive with `program` as `/init`.
pub fn of(program: &[u8]) -> Result<Vec<u8>> {
    let mut cpio = Vec::with_capacity(program.len() + 4096);
    for folder in FOLDERS {
        entry(&mut cpio, folder, FOLDER_MODE, (0, 0), &[])?;
    }
    entry(&mut cpio, "dev/console", DEVICE_MODE, CONSOLE, &[])?;
    entry(&mut cpio, "init", PROGRAM_MODE, (0, 0), program)?;
    entry(&mut cpio, "TRAILER!!!", 0, (0, 0), &[])?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&cpio)?;
    Ok(gzip.finish()?)
}

/// Appends a file: a header of hexadecimal fields, the name with a NUL, and the content, each
/// filled up to a multiple of four bytes.
fn entry(
    cpio: &mut Vec<u8>,
    name: &str,
    mode: u32,
    device: (u32, u32),
    content: &[u8],
) -> Result<()> {
    let inode = u32::try_from(cpio.len())?; // where it lies is unique
    let bytes = u32::try_from(content.len())?;
    let name_bytes = u32::try_from(name.len() + 1)?;
    // inode, mode, owner, group, links, time, bytes, device, special device, name's bytes, checksum
    let fields = [
        inode, mode, 0, 0, 1, 0, bytes, 0, 0, device.0, device.1, name_bytes, 0,
    ];
    cpio.extend(b"070701");
    for field in fields {
        write!(cpio, "{field:08x}")?;
    }
    cpio.extend(name.as_bytes());
    cpio.push(0);
    cpio.resize(cpio.len().next_multiple_of(4), 0);
    cpio.extend(content);
    cpio.resize(cpio.len().next_multiple_of(4), 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::of;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn archive_holds_the_program_where_the_format_says() {
        let archive = of(b"program").unwrap();
        let mut cpio = Vec::new();
        GzDecoder::new(&archive[..]).read_to_end(&mut cpio).unwrap();
        let (mut at, mut found) = (0, Vec::new());
        loop {
            let field = |index: usize| {
                let text = str::from_utf8(&cpio[at + 6 + 8 * index..][..8]).unwrap();
                usize::from_str_radix(text, 16).unwrap()
            };
            assert_eq!(&cpio[at..at + 6], b"070701");
            let (mode, bytes, name_bytes) = (field(1), field(6), field(11));
            let name = &cpio[at + 110..][..name_bytes];
            let content = (at + 110 + name_bytes).next_multiple_of(4);
            found.push((String::from_utf8_lossy(name).into_owned(), mode));
            if name == b"init\0" {
                assert_eq!(&cpio[content..][..bytes], b"program");
            }
            if name == b"TRAILER!!!\0" {
                break;
            }
            at = (content + bytes).next_multiple_of(4);
        }
        assert!(found.contains(&("init\0".into(), 0o100_755)));
        assert!(found.contains(&("dev/console\0".into(), 0o020_600)));
    }
}
