import numpy as np
from benchmark_utils.problems import data, measured, spikes
from benchopt import BaseDataset
from benchopt.config import get_data_path


class Dataset(BaseDataset):
    """Sources of magnetoencephalography; columns of the lead field are scaled to norm 1.

    ``data/meg/lead_field.npz`` (or the folder that the configuration of Benchopt names for ``meg``) must contain an
    array ``lead_field`` of shape (sensors, sources). Without it, the dataset is skipped.
    """

    name = "MEG"
    parameters = {"sparsity, snr_db": [(3, 30)], "problems": [10]}

    def get_data(self):
        path = get_data_path("meg") / "lead_field.npz"
        if not path.exists():
            return {"Phi": None, "x": None, "y": None, "sparsity": None, "training": None}
        with np.load(path) as file:
            Phi = file["lead_field"].astype(np.float64)
        Phi /= np.linalg.norm(Phi, axis=0)

        def draw(rng, problems):
            x = spikes(rng, problems, Phi.shape[1], self.sparsity)
            return Phi, x, measured(Phi, x, self.snr_db, rng)

        return data(draw, self.sparsity, self.get_seed(use_repetition=True), self.problems)
