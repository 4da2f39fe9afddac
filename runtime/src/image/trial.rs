//! Runs an image that has its tensors and no header yet, for its golden logits.

use super::{Image, Mapped, Places};
use crate::arena::{Forward, Kv, Model, Open, Region};
use crate::error::Error;
use crate::golden;
use crate::image::write::Packing;
use crate::kv::KvCache;
use crate::load::LoadError;
use crate::model::rope::RopeTables;
use crate::model::weights::Sizes;
use crate::model::{Config, Engine, StepPlan, Weights};
use crate::plan::{Demand, Plan};
use crate::profile::Profile;
use crate::sampler::SamplerError;
use crate::sys::{Fd, Team};
use crate::trace::Trace;

/// What it takes: a run of a mapped image, without a vocabulary and without a prompt; `metadata` and
/// `program` as a [`Demand`] has them.
pub fn plan(
    config: &Config,
    sizes: &Sizes,
    threads: usize,
    metadata: usize,
    program: usize,
) -> Plan {
    let demand = Demand {
        config,
        sizes,
        is_mapped: true,
        tokenizer: 0,
        encode: 0,
        sample: 0,
        text: 0,
        console: 0,
        prompt: 0,
        metadata,
        program,
    };
    Plan::new(&demand, &golden::request(threads))
}

/// The memory of a [`plan`].
pub struct Memory<'s, 'm> {
    /// Has room for the plan's Model scope, whatever else is in it.
    pub model: &'s Open<'m, Model>,
    /// Keys and values.
    pub kv: Region<'m, Kv>,
    /// Scratch.
    pub forward: Region<'m, Forward>,
}

/// The checksum of the golden logits; none if they are no numbers, which is told.
///
/// # Errors
/// The image cannot be read, or a signal came first.
pub fn golden(
    packing: &Packing<'_>,
    config: &Config,
    sizes: &Sizes,
    (image, file): (Image<'_>, Fd),
    memory: Memory<'_, '_>,
    team: Team,
) -> Result<Option<u64>, Error> {
    let Memory {
        model,
        mut kv,
        mut forward,
    } = memory;
    let gguf = &packing.model.gguf;
    let places = Places::new(image, sizes).map_err(LoadError::Image)?;
    let mut mapped = Mapped {
        places,
        file,
        model,
    };
    let weights = Weights::gather(gguf, config, &mut mapped)?;
    let request = golden::request(team.len());
    let plan = StepPlan::new(
        config,
        sizes,
        request.batch,
        request.threads,
        request.context,
    );
    let rope = RopeTables::new(model, config, request.context, weights.rope_divisors)?;
    let kv = kv.open();
    let formats = (request.key_format, request.value_format);
    let mut cache = KvCache::new(&kv, config, request.context, formats.0, formats.1)?;
    let mut engine = Engine {
        config: *config,
        weights,
        rope,
        kernels: packing.kernels,
        plan,
        team,
        profile: Profile::new(Trace::OFF),
        trace: Trace::OFF,
        notify: packing.notify,
    };
    match golden::checksum(&mut engine, &mut cache, &mut forward) {
        Err(Error::Sampler(SamplerError::NotFinite { .. })) => {
            packing.log.warning(format_args!(
                "the model's logits are no numbers: the image has no golden ones for selftest"
            ));
            Ok(None)
        }
        computed => computed.map(Some),
    }
}
