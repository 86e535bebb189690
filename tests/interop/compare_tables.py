"""Compares Taper with scikit-learn's MLP on sixteen tables as people have them.

  python3 tests/interop/compare_tables.py FOLDER --taper build/apps/taper [--seeds 5] [--only NAME ...]

FOLDER has the files that TABLES names. Taper gets each file as it is: `taper train FILE target=COLUMN`. For
scikit-learn, the columns are prepared by hand as TABLES says: numbers are filled with the median and scaled,
words become one-hot vectors, dates become numbers, the target of a regression is scaled, and early stopping
is used where that is better on a part of the training rows.

Each seed holds out a quarter of the rows that have a target. Both programs get the other rows; what they
hold out for validation is their own affair. Both predictions are scored here, by accuracy or R2. Prints a
table in Markdown, and exits with 1 if Taper fails on a table, or if its mean is below scikit-learn's by more
than one standard error of the differences between both.

Needs scikit-learn and pandas.
"""
import argparse
import gzip
import io
import pathlib
import statistics
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass, field

import numpy
import pandas
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

warnings.simplefilter("ignore", ConvergenceWarning)
TEST_SHARE = 0.25


@dataclass
class Table:
    file: str
    target: object  # a name, or an index of a file without a header
    classes: bool
    words: list = field(default_factory=list)
    dates: dict = field(default_factory=dict)  # column -> format for pandas
    drop: list = field(default_factory=list)  # what tells nothing or identifies the row
    separator: str = ","
    header: bool = True
    skip: int = 0


TABLES = [
    Table("GunPoint_TRAIN.tsv", 0, True, separator="\t", header=False),
    Table("airquality.csv", "Ozone", False, drop=["rownames"]),
    Table("auto-mpg.csv", "mpg", False, words=["origin"], drop=["name"]),
    Table("co2.csv", "co2", False, dates={"date": "%Y%m%d"}),
    Table("concrete.csv", "compressive_strength", False, drop=["rownames"]),
    Table("diabetes_data_raw.csv.gz", -1, False, separator=r"\s+", header=False),
    Table("email.csv", "spam", True, ["winner", "number"], {"time": "ISO8601"}, ["rownames"]),
    Table("hitters.csv", "Salary", False, ["League", "Division", "NewLeague"], drop=["rownames"]),
    Table(
        "la-riots.csv",
        "race",
        True,
        ["gender", "neighborhood", "type"],
        {"death_date": "%Y-%m-%d"},
        ["first_name", "last_name", "address"],
    ),
    Table(
        "movielens.csv",
        "rating",
        False,
        ["movieId", "genres", "userId"],
        {"timestamp": "seconds"},
        ["rownames", "title"],
    ),
    Table("olive.csv", "area", True, ["region"], drop=["rownames"]),
    Table(
        "penguins-raw.csv",
        "Species",
        True,
        ["studyName", "Island", "Clutch Completion", "Sex"],
        {"Date Egg": "%Y-%m-%d"},
        ["Region", "Stage", "Individual ID", "Comments"],
    ),
    Table("sacramento.csv", "price", False, ["city", "zip", "type"], drop=["rownames"]),
    Table("seattle-weather.csv", "weather", True, dates={"date": "%Y/%m/%d"}),
    Table("titanic_all.csv", "survived", True, ["class", "sex"], drop=["name"]),
    Table("wine_data.csv", -1, True, header=False, skip=1),
]


# --- the rows ---


def records_of(path):
    """Returns the lines of a file, where a quoted line break does not end a line."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    out, open_record = [], ""
    for line in text.splitlines(keepends=True):
        open_record += line if line.endswith("\n") else line + "\n"
        if open_record.count('"') % 2 == 0:
            out.append(open_record)
            open_record = ""
    return [record for record in out if record.strip()]


@dataclass
class Rows:
    top: list  # the lines above the rows
    records: list
    cells: pandas.DataFrame
    target: str


def read(table, folder):
    records = records_of(folder / table.file)
    begin = table.skip + table.header
    cells = pandas.read_csv(
        io.StringIO("".join(records[table.skip :])),
        sep=table.separator,
        header=0 if table.header else None,
    )
    target = table.target if table.header else cells.columns[table.target]
    rows = Rows(records[:begin], records[begin:], cells, target)
    assert len(rows.records) == len(cells), table.file
    return rows


def split(table, rows, seed):
    """Returns the positions of the training and test rows. Rows without a target are training rows."""
    known = numpy.flatnonzero(rows.cells[rows.target].notna())
    y = rows.cells[rows.target].iloc[known]
    may_stratify = table.classes and y.value_counts().min() >= 2
    train, test = train_test_split(
        known, test_size=TEST_SHARE, random_state=seed, stratify=y if may_stratify else None
    )
    unknown = numpy.flatnonzero(rows.cells[rows.target].isna())
    return numpy.sort(numpy.concatenate([train, unknown])), numpy.sort(test)


# --- scikit-learn ---


def dated(seconds):
    time = pandas.to_datetime(seconds, unit="s", utc=True)
    date = [time.dt.year, time.dt.month, time.dt.day, time.dt.day_of_week]
    parts = [*date, time.dt.hour, seconds / 86400]
    return numpy.stack([p.to_numpy(float) for p in parts], axis=1)


def features_of(table, rows):
    """Returns the features as a frame: numbers, and words as texts."""
    out = {}
    for column in rows.cells.columns:
        cells = rows.cells[column]
        if column == rows.target or column in table.drop:
            continue
        if column in table.dates:
            form = table.dates[column]
            if form != "seconds":
                times = pandas.to_datetime(cells.astype(str), format=form, utc=True)
                cells = (times - pandas.Timestamp(0, tz="UTC")).dt.total_seconds()
            for i, part in enumerate(dated(cells).T):
                out[f"{column}.{i}"] = part
        elif column in table.words:
            out[column] = cells.astype(object).where(cells.notna(), "missing").astype(str)
        else:
            out[str(column)] = cells.astype(float)
    return pandas.DataFrame(out)


def network(table, features, stops_early, seed):
    words = [column for column in features if column in table.words]
    numbers = [column for column in features if column not in table.words]
    prepared = ColumnTransformer(
        [
            ("words", OneHotEncoder(handle_unknown="ignore", sparse_output=False), words),
            ("numbers", make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler()), numbers),
        ]
    )
    options = dict(max_iter=500, early_stopping=stops_early, random_state=seed)
    if table.classes:
        return make_pipeline(prepared, MLPClassifier(**options))
    values = TransformedTargetRegressor(MLPRegressor(**options), transformer=StandardScaler())
    return make_pipeline(prepared, values)


def score(table, y, predicted):
    return accuracy_score(y, predicted) if table.classes else r2_score(y, predicted)


def score_sklearn(table, rows, train, test, seed):
    features, y = features_of(table, rows), rows.cells[rows.target]
    train = train[y.iloc[train].notna()]
    y = y.astype(str) if table.classes else y

    def fitted(fit, evaluate, stops_early):
        net = network(table, features, stops_early, seed)
        net.fit(features.iloc[fit], y.iloc[fit])
        return score(table, y.iloc[evaluate], net.predict(features.iloc[evaluate]))

    def attempt(stops_early):
        try:
            return fitted(inner, held_out, stops_early)
        except ValueError:  # a class is too small for early stopping
            return -numpy.inf

    inner, held_out = train_test_split(train, test_size=0.15, random_state=seed)
    stops_early = attempt(True) > attempt(False)
    try:
        return fitted(train, test, stops_early)
    except ValueError:
        return fitted(train, test, False)


# --- Taper ---


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def score_taper(table, rows, train, test, seed, options):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        name = table.file.removesuffix(".gz")
        files = {"train": folder / name, "test": folder / f"test_{name}"}
        for part, chosen in (("train", train), ("test", test)):
            files[part].write_text("".join(rows.top + [rows.records[i] for i in chosen]))
        settings = [f"target={table.target}", f"data.split.test={files['test']}", f"seed={seed}"]
        settings += [f"data.split.seed={seed}"]
        if table.skip:
            settings.append(f"data.read.skip={table.skip}")
        out = folder / "run"
        run([options.taper, "train", files["train"], *settings, *options.set, "--out", out])
        lines = run([options.taper, "predict", out, files["test"]])
    y = rows.cells[rows.target].iloc[test]
    predicted = pandas.read_csv(io.StringIO(lines), dtype=str)["prediction"]
    if table.classes:
        return score(table, y.astype(str).to_numpy(), predicted.to_numpy())
    return score(table, y.to_numpy(), predicted.astype(float).to_numpy())


# --- the comparison ---


def compare(table, options):
    """Returns a row of the result, and whether Taper is good enough."""
    rows = read(table, options.folder)
    taper, sklearn = [], []
    for seed in range(options.seeds):
        train, test = split(table, rows, seed)
        sklearn.append(score_sklearn(table, rows, train, test, seed))
        taper.append(score_taper(table, rows, train, test, seed, options))
    differences = [a - b for a, b in zip(taper, sklearn)]
    error = statistics.stdev(differences) / len(differences) ** 0.5 if len(differences) > 1 else 0.0
    mean = statistics.fmean
    is_good = mean(differences) >= -error - 1e-12
    name, metric = table.file.split(".")[0], "accuracy" if table.classes else "R2"
    numbers = f"{mean(taper):.3f} | {mean(sklearn):.3f} | {mean(differences):+.3f} | {error:.3f}"
    return f"| {name} | {metric} | {numbers} | {'' if is_good else 'below'} |", is_good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--taper", default="build/apps/taper")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of file names")
    parser.add_argument("--set", nargs="*", default=[], help="more settings for taper train")
    options = parser.parse_args()
    print("| table | metric | Taper | scikit-learn | difference | standard error | |")
    print("|---|---|---|---|---|---|---|", flush=True)
    failures = 0
    for table in TABLES:
        if options.only and not table.file.startswith(tuple(options.only)):
            continue
        try:
            line, is_good = compare(table, options)
        except RuntimeError as error:
            line, is_good = f"| {table.file.split('.')[0]} | Taper failed: {error} |", False
        print(line, flush=True)
        failures += not is_good
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
