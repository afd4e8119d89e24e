//! Tables for people.

use comfy_table::{CellAlignment, Table, presets};

/// A table. Below titles, the first column stands to the left and the others to the right; without
/// titles all stand to the left.
pub(crate) fn table(titles: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).add_rows(rows);
    if !titles.is_empty() {
        table.set_header(titles);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt() + "\n"
}
