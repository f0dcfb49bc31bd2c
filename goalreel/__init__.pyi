"""The public names, each beside the module that holds it: for type checkers, and read by `__init__.py`."""

from goalreel.annotator.annotate import annotate as annotate
from goalreel.annotator.annotate import open_dataset as open_dataset
from goalreel.annotator.check import CheckReport as CheckReport
from goalreel.annotator.check import check as check
from goalreel.annotator.options import Options as Options
from goalreel.annotator.plan import plan as plan
from goalreel.annotator.show import read_storyboards as read_storyboards
from goalreel.drivers import Limits as Limits
from goalreel.drivers import run as run
from goalreel.errors import BackendError as BackendError
from goalreel.errors import DatasetError as DatasetError
from goalreel.errors import InputError as InputError
from goalreel.errors import UserError as UserError
from goalreel.image import Image as Image
from goalreel.loop import storyboard as storyboard
from goalreel.models.load import load_models as load_models
from goalreel.models.model_set import ModelSet as ModelSet
from goalreel.storyboard_io import load_storyboard as load_storyboard
from goalreel.storyboard_io import save_storyboard as save_storyboard
from goalreel.types import Attempt as Attempt
from goalreel.types import Candidate as Candidate
from goalreel.types import Critic as Critic
from goalreel.types import Edit as Edit
from goalreel.types import Editor as Editor
from goalreel.types import Failure as Failure
from goalreel.types import Plan as Plan
from goalreel.types import Planner as Planner
from goalreel.types import Segment as Segment
from goalreel.types import Step as Step
from goalreel.types import Storyboard as Storyboard
from goalreel.types import StoryboardStep as StoryboardStep
from goalreel.types import Task as Task
from goalreel.types import Verdict as Verdict

__version__: str
