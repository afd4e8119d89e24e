//! What may be typed behind `polder vector`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use polder_vector::{ElementKind, Metric};

use super::{StoreArgs, WriteArgs};

#[derive(Debug, Subcommand)]
pub enum VectorCommand {
    /// Make an empty collection.
    Create(VectorCreateArgs),
    /// Insert the vectors of a file.
    Load(VectorLoadArgs),
    /// Look for the vectors that are nearest to each of a file.
    Search(VectorSearchArgs),
    /// Measure how many of the nearest searches find, and how fast.
    Probe(VectorProbeArgs),
    /// Show what a collection is, and how many vectors it has.
    Stat(VectorArgs),
    /// Make keys and vectors agree, where `check` says that they do not, and complete a load that was cut off.
    Repair(VectorRepairArgs),
    /// Drop a collection, and make the file shorter.
    Drop(VectorArgs),
}

/// Which collection.
#[derive(Debug, Args)]
pub struct VectorArgs {
    #[command(flatten)]
    pub store: StoreArgs,
    /// The collection.
    pub collection: String,
}

#[derive(Debug, Args)]
pub struct VectorRepairArgs {
    #[command(flatten)]
    pub at: VectorArgs,

    #[command(flatten)]
    pub write: WriteArgs,
}

/// What the numbers of vectors are.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Element {
    F32,
    F16,
    Bf16,
    I8,
    Bit,
}

impl From<Element> for ElementKind {
    fn from(element: Element) -> ElementKind {
        match element {
            Element::F32 => ElementKind::F32,
            Element::F16 => ElementKind::F16,
            Element::Bf16 => ElementKind::Bf16,
            Element::I8 => ElementKind::I8,
            Element::Bit => ElementKind::Bit,
        }
    }
}

/// How far vectors are from each other.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Distance {
    /// The square of the Euclidean distance.
    L2,
    /// One less the inner product.
    InnerProduct,
    /// One less the cosine of the angle.
    Cosine,
    /// How many bits differ.
    Hamming,
}

impl From<Distance> for Metric {
    fn from(distance: Distance) -> Metric {
        match distance {
            Distance::L2 => Metric::L2,
            Distance::InnerProduct => Metric::InnerProduct,
            Distance::Cosine => Metric::Cosine,
            Distance::Hamming => Metric::Hamming,
        }
    }
}

/// How the nearest are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Index {
    /// A graph that is fastest where it fits in memory (HNSW).
    Hnsw,
    /// A graph that is steered by short codes, fast where it does not fit in memory (Vamana).
    Vamana,
    /// Lists of vectors, each around one of a sample: inserts are cheap, searches scan (IVF-Flat).
    Ivf,
}

#[derive(Debug, Args)]
pub struct VectorCreateArgs {
    #[command(flatten)]
    pub at: VectorArgs,

    /// Numbers of a vector; of bits, a multiple of 8.
    #[arg(long, value_name = "N")]
    pub dimensions: usize,

    /// What the numbers are.
    #[arg(long, value_enum, default_value = "f32")]
    pub element: Element,

    /// How far vectors are from each other.
    #[arg(long, value_enum, default_value = "l2")]
    pub metric: Distance,

    /// How the nearest are found.
    #[arg(long, value_enum, default_value = "hnsw")]
    pub index: Index,

    /// Links of a vector to others, at most: of hnsw 16 by default, and twice as many on the lowest level;
    /// of vamana 64.
    #[arg(long, value_name = "N")]
    pub links: Option<usize>,

    /// Bits of a code for each dimension, of vamana: 1, 2 or 4 (default).
    #[arg(long, value_name = "N")]
    pub code_bits: Option<usize>,

    /// Lists of ivf: the root of the number of vectors that will come is a good beginning, up to four times
    /// as many.
    #[arg(long, value_name = "N")]
    pub lists: Option<usize>,

    /// Vectors like those that will come, a file as `load` takes; they are not inserted. Of vamana codes are
    /// made from the mean of the first 1000 on, which makes them more exact. Ivf cannot be made without: its
    /// lists are found by looking at 64 for each, drawn from all, which are kept in memory meanwhile.
    #[arg(long, value_name = "FILE")]
    pub sample: Option<PathBuf>,

    #[command(flatten)]
    pub vectors: VectorName,

    /// How many of the nearest an insert into a graph keeps in sight [default: 128].
    #[arg(long, value_name = "N")]
    pub insert_width: Option<usize>,

    #[command(flatten)]
    pub write: WriteArgs,
}

/// What is called `vector` otherwise.
#[derive(Debug, Args)]
pub struct VectorName {
    /// The column or field of vectors in .parquet and .jsonl [default: vector].
    #[arg(long, value_name = "NAME")]
    pub vector: Option<String>,
}

/// What columns of a file are called, or fields of its lines, if not as they are usually.
#[derive(Debug, Clone, Default, Args)]
pub struct Names {
    /// The column or field of vectors in .parquet and .jsonl [default: vector].
    #[arg(long, value_name = "NAME")]
    pub vector: Option<String>,

    /// That of keys [default: key, if it is there].
    #[arg(long, value_name = "NAME")]
    pub key: Option<String>,

    /// That of payloads [default: payload, if it is there].
    #[arg(long, value_name = "NAME")]
    pub payload: Option<String>,
}

impl Names {
    /// An option that was given.
    pub fn given(&self) -> Option<&'static str> {
        let all = [("--vector", &self.vector), ("--key", &self.key), ("--payload", &self.payload)];
        all.into_iter().find(|(_, name)| name.is_some()).map(|(option, _)| option)
    }
}

impl From<&VectorName> for Names {
    fn from(name: &VectorName) -> Names {
        Names { vector: name.vector.clone(), ..Names::default() }
    }
}

#[derive(Debug, Args)]
#[command(after_help = "\
Files are .fvecs, .bvecs, .ivecs, .npy (an array of two dimensions), .jsonl (a line is an array of numbers, or
{\"key\": \"a\", \"vector\": [...], \"payload\": ...}; a payload that is not text is kept as JSON) and, if this
program was built with the feature parquet, .parquet (columns key, vector, a list of numbers, and payload;
without a payload all other columns are kept as JSON). Columns and fields may have other names.
The key of a row is what it says, or its number in the file, from 0, with --prefix in front. Rows whose key
is there already are passed over: a load that was stopped, or whose process died, goes on when it is made
again. With --index vamana many vectors are placed first and linked at the end, which begins anew then; until
it is done searches find few of them but with --exact. A .parquet is read uncompressed or compressed by
Snappy.")]
pub struct VectorLoadArgs {
    #[command(flatten)]
    pub at: VectorArgs,

    /// The file of vectors.
    pub file: PathBuf,

    #[command(flatten)]
    pub names: Names,

    /// What is put in front of each key.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// Threads that insert [default: one for each core].
    #[arg(long, value_name = "N")]
    pub threads: Option<std::num::NonZeroUsize>,

    #[command(flatten)]
    pub write: WriteArgs,
}

/// What to look for.
#[derive(Debug, Args)]
pub struct LookArgs {
    /// The file of vectors that others are to be near to.
    pub file: PathBuf,

    #[command(flatten)]
    pub vectors: VectorName,

    /// So many of the nearest.
    #[arg(short = 'k', long, value_name = "N", default_value_t = 10)]
    pub count: usize,
}

#[derive(Debug, Args)]
pub struct VectorSearchArgs {
    #[command(flatten)]
    pub at: VectorArgs,

    #[command(flatten)]
    pub look: LookArgs,

    /// How many of the nearest a search of a graph keeps in sight, or in how many lists of ivf it looks: with
    /// more it finds more and takes longer.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub width: usize,

    /// Compare with all vectors.
    #[arg(long, conflicts_with = "width")]
    pub exact: bool,

    /// Only keys that begin with this.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub prefix: String,

    /// None that is farther.
    #[arg(long, value_name = "DISTANCE")]
    pub within: Option<f32>,

    /// Print payloads as well.
    #[arg(long)]
    pub payloads: bool,
}

#[derive(Debug, Args)]
pub struct VectorProbeArgs {
    #[command(flatten)]
    pub at: VectorArgs,

    #[command(flatten)]
    pub look: LookArgs,

    /// Widths to measure.
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10, 20, 40, 80, 160, 320])]
    pub widths: Vec<usize>,

    /// Look for the least width that finds this part of the nearest, such as 0.95.
    #[arg(long, value_name = "PART")]
    pub recall: Option<f64>,
}
