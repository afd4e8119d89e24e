//! R7 for the pages of the catalogue, before the others. Their kinds are the tree's in every store, and
//! only they tell which structures have the other pages. Who redoes those comes by the catalogue's again,
//! and finds that they contain what was logged, or does it once more from an image on.

use polder_format::log::{GROUP_HEADER_BYTES, Record};
use polder_format::{Lsn, SpaceId};
use polder_pool::{Pool, Translation};

use super::found::Found;
use super::halves::Halves;
use super::redoing::{Redoing, Share, sorted_by_page};
use crate::error::LogError;
use crate::file::LogFile;

pub(super) fn redo_catalogue<'p, T: Translation>(
    file: &LogFile,
    found: &Found,
    pool: &'p Pool<T>,
    halves: &'p Halves,
) -> Result<Redoing<'p, T>, LogError> {
    let mut redoing = Redoing::new(pool, Share::ALL, halves);
    let Some((first, last)) = found.catalogue else { return Ok(redoing) };
    file.visit_again(found, (first, Lsn(last.0 + 1)), &mut |header, group| {
        let (mut records, mut at) = (Vec::new(), GROUP_HEADER_BYTES);
        while let Some((page, len)) = Record::peek(&group[at..]) {
            if page.space() == SpaceId::CATALOGUE {
                let record = Record::decode(&group[at..]);
                let offset = file.offset(header.lsn);
                let source = |source| LogError::Record { lsn: header.lsn, offset, source };
                records.push(record.map_err(source)?);
            }
            at += len;
        }
        Ok(redoing.redo(header.end(), sorted_by_page(&mut records))?)
    })?;
    Ok(redoing)
}
