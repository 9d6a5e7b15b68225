//! RAID0: how a request is divided among drives.

/// Layout of a RAID0 volume: chunk after chunk, from drive to drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stripes {
    pub(super) drives: usize,
    /// Bytes on one drive before the next drive follows.
    pub(super) chunk: u64,
}

/// One drive's part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) drive: usize,
    pub(crate) bytes: u64,
}

impl Piece {
    /// A drive's piece of a flush, without data.
    pub(crate) fn for_flush(drive: usize) -> Self {
        Self { drive, bytes: 0 }
    }
}

impl Stripes {
    /// Splits a request into one piece for each drive, beginning with the first byte's. A drive's chunks follow each other,
    /// and the kernel merges them into one piece.
    pub(super) fn split_into_pieces(self, offset: u64, bytes: u64) -> impl Iterator<Item = Piece> {
        let drives = self.drives as u64;
        let end = offset.saturating_add(bytes);
        let (first, last) = (offset / self.chunk, end.saturating_sub(1) / self.chunk);
        let chunks = last - first + 1;
        (0..chunks.min(drives)).map(move |nth| {
            // Whole chunks, less the bytes before and after the request.
            let mut of_drive = ((chunks - nth).div_ceil(drives)) * self.chunk;
            if nth == 0 {
                of_drive -= offset - first * self.chunk;
            }
            if (chunks - 1) % drives == nth {
                of_drive -= (last + 1) * self.chunk - end;
            }
            Piece {
                drive: ((first + nth) % drives) as usize,
                bytes: of_drive,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pieces(drives: usize, offset: u64, bytes: u64) -> Vec<(usize, u64)> {
        let stripes = Stripes { drives, chunk: 100 };
        stripes
            .split_into_pieces(offset, bytes)
            .map(|p| (p.drive, p.bytes))
            .collect()
    }

    #[test]
    fn requests_are_cut_at_chunks() {
        assert_eq!(pieces(3, 0, 100), [(0, 100)]);
        assert_eq!(pieces(3, 50, 100), [(0, 50), (1, 50)]);
        assert_eq!(pieces(3, 250, 100), [(2, 50), (0, 50)]);
        assert_eq!(pieces(3, 100, 300), [(1, 100), (2, 100), (0, 100)]);
        assert_eq!(pieces(3, 150, 300), [(1, 100), (2, 100), (0, 100)]);
        assert_eq!(pieces(2, 50, 300), [(0, 150), (1, 150)]);
        assert_eq!(pieces(1, 50, 1000), [(0, 1000)]);
    }

    proptest! {
        #[test]
        fn pieces_are_what_each_drive_has_of_the_bytes(
            drives in 1_usize..8,
            chunk in 1_u64..50,
            offset in 0_u64..1000,
            bytes in 1_u64..1000,
        ) {
            let mut wanted = vec![0; drives];
            for byte in offset..offset + bytes {
                wanted[(byte / chunk) as usize % drives] += 1;
            }
            let mut got = vec![0; drives];
            for piece in (Stripes { drives, chunk }).split_into_pieces(offset, bytes) {
                prop_assert!(piece.bytes > 0 && got[piece.drive] == 0);
                got[piece.drive] = piece.bytes;
            }
            prop_assert_eq!(got, wanted);
        }
    }
}
