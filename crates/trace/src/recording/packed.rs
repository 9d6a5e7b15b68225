//! Checks for a recording's packed bytes before the Parquet library reads them: the library panics, or counts for
//! minutes, if bytes announce impossible sizes. The formats are Parquet's ("Encodings") and Thrift's ("compact
//! protocol").

/// The bytes still to be checked, of a page or of a description.
pub(super) struct Packed<'a>(pub(super) &'a [u8]);

/// Why the check of packed bytes stops.
#[derive(Debug)]
pub(super) enum Stop {
    End,
    /// A packed number has more than 64 bits.
    TooLong,
    /// The page has fewer values than it announces.
    Count,
    /// A structure that Parquet descriptions have no use for.
    Strange,
}

type Step<T> = Result<T, Stop>;

impl<'a> Packed<'a> {
    /// Skips `expected` values in DELTA_BINARY_PACKED form, and checks their announced sizes.
    pub(super) fn skip_deltas(mut self, expected: u32) -> Step<()> {
        let block = self.take_varint()?;
        let parts = self.take_varint()?;
        let count = self.take_varint()?;
        if count != u64::from(expected) || count == 0 {
            return Err(Stop::Count);
        }
        let mut left = count - 1;
        let _first = self.take_varint()?;
        let values = block.checked_div(parts).ok_or(Stop::End)?;
        if values == 0 {
            return Ok(());
        }
        while left > 0 {
            let _least = self.take_varint()?;
            for &bits in self.take_bytes(parts)? {
                if left > 0 {
                    self.take_bytes(u64::from(bits).saturating_mul(values) / 8)?;
                }
                left = left.saturating_sub(values);
            }
        }
        Ok(())
    }

    /// Skips `left` values in RLE_DICTIONARY form, and checks their announced sizes.
    pub(super) fn skip_dictionary_runs(mut self, mut left: u32) -> Step<()> {
        let bits = u64::from(self.take_bytes(1)?[0]);
        while left > 0 {
            let run = self.take_varint()?;
            let (values, bytes) = if run & 1 == 1 {
                (
                    (run >> 1).saturating_mul(8),
                    (run >> 1).saturating_mul(bits),
                )
            } else {
                (run >> 1, bits.div_ceil(8))
            };
            self.take_bytes(bytes)?;
            left = left.saturating_sub(u32::try_from(values).unwrap_or(u32::MAX));
        }
        Ok(())
    }

    fn take_bytes(&mut self, size: u64) -> Step<&'a [u8]> {
        let size = usize::try_from(size).map_err(|_| Stop::End)?;
        self.0.split_off(..size).ok_or(Stop::End)
    }

    /// Takes a variable-length number: seven bits per byte, the lowest first; the last byte lacks the highest bit.
    fn take_varint(&mut self) -> Step<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take_bytes(1)?[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Stop::TooLong)
    }

    /// Skips a Thrift structure. Returns the whole numbers among its first few fields, by field number.
    pub(super) fn skip_thrift_structure(&mut self) -> Step<[Option<i64>; FIELDS]> {
        self.skip_structure_to_depth(DEEPEST)
    }

    fn skip_structure_to_depth(&mut self, depth: usize) -> Step<[Option<i64>; FIELDS]> {
        let mut numbers = [None; FIELDS];
        let mut field = 0;
        loop {
            let header = self.take_bytes(1)?[0];
            if header == 0 {
                return Ok(numbers);
            }
            field = match header >> 4 {
                0 => decode_zigzag(self.take_varint()?),
                step => field + i64::from(step),
            };
            let number = self.skip_value(header & 0xf, depth)?;
            if let Some(place) = usize::try_from(field).ok().and_then(|f| numbers.get_mut(f)) {
                *place = number;
            }
        }
    }

    /// Skips a Thrift value of a type; returns it if it is a number.
    fn skip_value(&mut self, kind: u8, depth: usize) -> Step<Option<i64>> {
        let depth = depth.checked_sub(1).ok_or(Stop::Strange)?;
        match kind {
            // A Thrift field's header holds the value of a boolean.
            1 | 2 => {}
            3 => drop(self.take_bytes(1)?),
            4..=6 => return Ok(Some(decode_zigzag(self.take_varint()?))),
            7 => drop(self.take_bytes(8)?),
            8 => {
                let length = self.take_varint()?;
                self.take_bytes(length)?;
            }
            9 | 10 => {
                let header = self.take_bytes(1)?[0];
                let count = match header >> 4 {
                    15 => self.take_varint()?,
                    count => u64::from(count),
                };
                let element = header & 0xf;
                // Each element of a list takes at least a byte, since lists of booleans do not occur.
                if count > self.0.len() as u64 || element < 3 && count > 0 {
                    return Err(Stop::Strange);
                }
                for _ in 0..count {
                    self.skip_value(element, depth)?;
                }
            }
            12 => drop(self.skip_structure_to_depth(depth)?),
            _ => return Err(Stop::Strange),
        }
        Ok(None)
    }
}

/// Number of fields, from 0 on, whose numbers are returned.
const FIELDS: usize = 4;
/// Limit on nested structures, beyond any description.
const DEEPEST: usize = 32;

/// Decodes a zigzag number, whose lowest bit is the sign.
fn decode_zigzag(number: u64) -> i64 {
    (number >> 1) as i64 ^ -((number & 1) as i64)
}
