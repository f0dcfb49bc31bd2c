"""The names of transformers that this project uses, each from where it is defined.

transformers' own `__init__` names the modules of all its models, which take a checker half a minute to read.
"""

from transformers.feature_extraction_utils import BatchFeature as BatchFeature
from transformers.generation.configuration_utils import GenerationConfig as GenerationConfig
from transformers.generation.logits_process import (
    LogitsProcessor as LogitsProcessor,
    LogitsProcessorList as LogitsProcessorList,
    TemperatureLogitsWarper as TemperatureLogitsWarper,
    TopKLogitsWarper as TopKLogitsWarper,
    TopPLogitsWarper as TopPLogitsWarper,
)
from transformers.generation.stopping_criteria import StoppingCriteriaList as StoppingCriteriaList
from transformers.modeling_utils import PreTrainedModel as PreTrainedModel
from transformers.models.auto.configuration_auto import AutoConfig as AutoConfig
from transformers.models.auto.modeling_auto import (
    AutoModelForCausalLM as AutoModelForCausalLM,
    AutoModelForImageTextToText as AutoModelForImageTextToText,
)
from transformers.models.auto.processing_auto import AutoProcessor as AutoProcessor
from transformers.models.auto.tokenization_auto import AutoTokenizer as AutoTokenizer
from transformers.models.clip.configuration_clip import CLIPTextConfig as CLIPTextConfig
from transformers.models.clip.modeling_clip import CLIPTextModel as CLIPTextModel
from transformers.models.clip.tokenization_clip import CLIPTokenizer as CLIPTokenizer
from transformers.models.llama.configuration_llama import LlamaConfig as LlamaConfig
from transformers.models.llama.modeling_llama import LlamaForCausalLM as LlamaForCausalLM
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import (
    Qwen2_5_VLForConditionalGeneration as Qwen2_5_VLForConditionalGeneration,
)
from transformers.models.qwen2_vl.image_processing_qwen2_vl import (
    Qwen2VLImageProcessor as Qwen2VLImageProcessor,
)
from transformers.models.qwen3.configuration_qwen3 import Qwen3Config as Qwen3Config
from transformers.models.qwen3.modeling_qwen3 import Qwen3ForCausalLM as Qwen3ForCausalLM
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLConfig as Qwen3VLConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import (
    Qwen3VLForConditionalGeneration as Qwen3VLForConditionalGeneration,
)
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor as Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import (
    Qwen3VLVideoProcessor as Qwen3VLVideoProcessor,
)
from transformers.processing_utils import ProcessorMixin as ProcessorMixin
from transformers.tokenization_utils_base import PreTrainedTokenizerBase as PreTrainedTokenizerBase
from transformers.tokenization_utils_tokenizers import PreTrainedTokenizerFast as PreTrainedTokenizerFast
from transformers.trainer import Trainer as Trainer
from transformers.trainer_callback import (
    TrainerCallback as TrainerCallback,
    TrainerControl as TrainerControl,
    TrainerState as TrainerState,
)
from transformers.training_args import TrainingArguments as TrainingArguments
from transformers.utils.quantization_config import TorchAoConfig as TorchAoConfig
