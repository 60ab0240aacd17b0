import pandas as pd
import pytest
from PIL import Image

from hitnet.data import open_data
from hitnet.data.formats.table_rows import read_table
from hitnet.errors import HitNetError


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pics").mkdir()
    for i in range(10):
        Image.new("L", (6, 6), 10 * i).save(tmp_path / "pics" / f"{i}.png")
    return tmp_path


def write(folder, text, name="set.csv"):
    (folder / name).write_text(text)
    return folder / name


def rows(labels):
    return "".join(f"pics/{i}.png,{label}\n" for i, label in enumerate(labels))


def agreement(path):
    """Annotator agreement, also of a table that has one label per image, which opened data does not report."""
    rows = read_table(path).agreement()
    reported = open_data(path).annotations()
    assert rows.equals(reported) if (rows["votes"] > 1).any() else reported is None
    return rows


@pytest.mark.parametrize("columns", ["path,label", "Image,Class", "filename,target", "image_path, category"])
def test_columns_by_their_usual_names(folder, columns):
    images = open_data(write(folder, f"{columns}\n" + rows("bab"))).load("all")
    assert images.class_names == ("a", "b")
    assert images.labels.tolist() == [1, 0, 1]
    assert images.paths == ("pics/0.png", "pics/1.png", "pics/2.png")
    assert images.pixels[:, 0, 0, 0].tolist() == [0, 10, 20]
    assert images.name == "set"


def test_other_kinds_of_table(folder):
    write(folder, "path\tlabel\npics/1.png\tx\npics/2.png\ty\n", "set.tsv")
    assert open_data(folder / "set.tsv").load("all").class_names == ("x", "y")
    frame = pd.DataFrame({"file": ["pics/1.png", "pics/2.png", "pics/3.png"], "label": [3, 12, None]})
    frame.to_parquet(folder / "set.parquet")
    report = open_data(folder / "set.parquet").report("all")
    assert report.images.class_names == ("3", "12")
    assert [item.path for item in report.skipped] == ["pics/3.png"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("labels", [[3, 12, 3], [3.0, 12.0, None], ["3.0", "12.00", "3"]])
def test_whole_numbers_are_the_same_class_with_a_decimal_point_and_without(folder, suffix, labels):
    path = folder / f"set.{suffix}"
    frame = pd.DataFrame({"file": ["pics/1.png", "pics/2.png", "pics/3.png"], "label": labels})
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if suffix == "tsv" else ",")
    report = open_data(path).report("all")
    assert report.images.class_names == ("3", "12")
    assert len(report.images) + len(report.skipped) == 3


def test_other_numbers_and_texts_stay_as_they_are(folder):
    assert open_data(write(folder, "path,label\n" + rows(["007", "1.5", "v1.0"]))).load("all").class_names == (
        "1.5",
        "007",
        "v1.0",
    )


def test_splits(folder):
    text = "path,label,split\npics/0.png,a,train\npics/1.png,b,Test\npics/2.png,b,train\n"
    path = write(folder, text)
    assert open_data(path).load().paths == ("pics/0.png", "pics/2.png")
    test = open_data(path).load("test")
    assert (test.paths, test.class_names, test.ids.tolist()) == (("pics/1.png",), ("a", "b"), [1])


def test_without_splits_a_fifth_tests(folder):
    path = write(folder, "path,label\n" + rows("aaaaabbbbb"))
    assert len(open_data(path).load()) == 8
    assert sorted(open_data(path).load("test").labels.tolist()) == [0, 1]


@pytest.mark.parametrize("names", ["label_1,label_2,label_3", "annotator_ann,annotator_bob,annotator_cy"])
def test_votes_in_columns(folder, names):
    text = f"path,{names}\npics/0.png,a,b,b\npics/1.png,c,a,\npics/2.png,a,a,a\n"
    path = write(folder, text)
    images = open_data(path).load("all")
    assert images.class_names == ("a", "b", "c")
    assert images.labels.tolist() == [1, 2, 0]  # a tie goes to the first
    votes = agreement(path)
    assert list(votes.columns) == ["path", "label", "votes", "agreement", "votes_a", "votes_b", "votes_c"]
    assert votes.index.tolist() == images.ids.tolist()
    assert votes["votes"].tolist() == [3, 2, 3]
    assert votes["agreement"].tolist() == pytest.approx([2 / 3, 1 / 2, 1])
    assert votes.loc[0, ["votes_a", "votes_b", "votes_c"]].tolist() == [1, 2, 0]


def test_votes_in_rows(folder):
    text = "path,label\npics/0.png,a\npics/1.png,b\npics/0.png,b\npics/0.png,b\n"
    path = write(folder, text)
    images = open_data(write(folder, text + "pics/2.png,a\n")).load("all")
    assert images.paths == ("pics/0.png", "pics/1.png", "pics/2.png")
    assert [images.class_names[k] for k in images.labels] == ["b", "b", "a"]
    assert agreement(path)["votes"].tolist() == [3, 1, 1]


def test_a_file_is_one_image_however_its_path_is_written(folder):
    path = write(folder, "path,label\n./pics/0.png,a\npics/./0.png,a\npics\\0.png,b\n././pics/1.png,b\n../x/2.png,b\n")
    assert read_table(path).files() == ["pics/0.png"] * 3 + ["pics/1.png", "../x/2.png"]
    assert agreement(path)["votes"].tolist() == [3, 1, 1]


@pytest.mark.parametrize("who", ["annotator", "Annotator_ID", "annotator_name"])
def test_who_labelled_an_image_is_no_vote(folder, who):
    path = write(folder, f"path,{who},label\npics/0.png,a,a\npics/0.png,b,b\npics/0.png,c,b\npics/1.png,a,a\n")
    votes = agreement(path)
    assert votes["label"].tolist() == ["b", "a"]
    assert votes["agreement"].tolist() == pytest.approx([2 / 3, 1])
    assert votes.loc[0, ["votes_a", "votes_b"]].tolist() == [1, 2]
    assert "votes_c" not in votes


def test_a_label_counts_before_the_votes(folder):
    path = write(folder, "path,label,label_1,label_2\npics/0.png,a,b,b\npics/1.png,b,b,a\n")
    images = open_data(path).load("all")
    assert images.labels.tolist() == [0, 1]
    assert agreement(path)["agreement"].tolist() == [0.0, 0.5]


def test_single_labels_are_one_vote(folder):
    votes = agreement(write(folder, "path,label\n" + rows("ab")))
    assert votes["votes"].tolist() == [1, 1]
    assert votes["agreement"].tolist() == [1.0, 1.0]


def test_rows_that_give_no_image_are_named(folder):
    path = write(folder, "path,label\npics/0.png,a\n,b\npics/1.png,\npics/none.png,a\npics/2.png,b\n")
    report = open_data(path).report("all")
    assert report.images.ids.tolist() == [0, 3]
    assert [(item.path, item.reason) for item in report.skipped] == [
        ("set.csv, row 2", "it gives no image path"),
        ("pics/1.png", "row 3 gives no label (empty or -1)"),
        ("pics/none.png", "there is no such file"),
    ]
    with pytest.raises(HitNetError, match="row 2"):
        open_data(path, strict=True).load()


@pytest.mark.parametrize("none", ["-1", "-1.0", " "])
def test_rows_without_a_label_are_left_out(folder, none):
    report = open_data(write(folder, "path,label\n" + rows(["1", none, "0"]))).report("all")
    assert report.images.class_names == ("0", "1")
    assert [(item.path, item.reason) for item in report.skipped] == [
        ("pics/1.png", "row 2 gives no label (empty or -1)")
    ]


def test_annotators_who_gave_no_label_have_no_vote(folder):
    votes = agreement(write(folder, "path,label_1,label_2\n" + rows(["0,-1", "-1,1", "-1,-1", "1,1"])))
    assert votes["label"].tolist() == ["0", "1", "1"]
    assert votes["votes"].tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("picture,label\nx,1\n", "no column of image paths.*found picture, label"),
        ("path,kind\nx,1\n", "no column of labels.*found path, kind"),
        ("path;label\npics/0.png;a\n", "columns must be separated by commas; .* one column only, 'path;label'"),
        ("path;label;sure\npics/0.png;a;0,5\n", "columns must be separated by commas"),
        ("path\tlabel\npics/0.png\ta\n", "columns must be separated by commas"),
        ("path\npics/0.png\n", "no column of labels.*found path"),
        ("path,label\n", "no row with"),
        ("path,label\npics/0.png,-1\npics/1.png,1\n", r"only one class, '1'; .* row 1 gives no label \(empty or -1\)"),
        ("path,label,split\npics/0.png,a,train\npics/1.png,b,\n", "row 2 gives no split"),
        ("path,label,split\npics/0.png,a,holdout\n", "row 1: unknown split 'holdout'"),
        ("path,label,split\npics/0.png,a,train\npics/0.png,a,test\n", "several splits"),
        ("path,label\npics/0.png,a,\npics/1.png,b,\n", "more cells than its header"),
        ("path,label\npics/0.png,a,x\npics/1.png,b,y\n", "more cells than its header"),
        ("", "set.csv is empty. A table needs a header"),
        ('path,label\n"pics/0.png,a\n', "not a readable .csv table"),
        ("path,label\na,b\nc,d,e,f\n", "not a readable .csv table"),
    ],
)
def test_errors_say_what_is_wrong(folder, text, says):
    with pytest.raises(HitNetError, match=says):
        open_data(write(folder, text)).load()


def test_a_tsv_separated_by_commas(folder):
    with pytest.raises(HitNetError, match=r"columns must be separated by tabs; .* 'path,label'"):
        open_data(write(folder, "path,label\n" + rows("ab"), "set.tsv")).load()


def test_text_that_is_not_unicode_is_refused(folder):
    pd.DataFrame({"path": ["pics/0.png", "pics/1.png"], "label": ["a", "b"]}).to_parquet(folder / "x.parquet")
    content = (folder / "x.parquet").read_bytes()
    (folder / "x.parquet").write_bytes(content.replace(b"pics/1.png", b"pics/\xff.png"))
    with pytest.raises(HitNetError, match=r"x\.parquet is not a readable \.parquet file"):
        open_data(folder / "x.parquet").load()


def test_other_files_are_refused(folder):
    (folder / "x.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(HitNetError, match=r"not a readable \.parquet file"):
        open_data(folder / "x.parquet").load()
    (folder / "latin.csv").write_bytes("path,label\ncafé.png,a\n".encode("latin-1"))
    with pytest.raises(HitNetError, match=r"not a readable \.csv table.*Save it as UTF-8"):
        open_data(folder / "latin.csv").load()
    with pytest.raises(HitNetError, match="of no known kind"):
        open_data(folder / "pics" / "0.png").load()
    pd.DataFrame({"image": ["pics/0.png"], "label": [[1.0, 2.0]]}).to_parquet(folder / "z.parquet")
    with pytest.raises(HitNetError, match="column label must hold text or numbers; it holds ndarray"):
        open_data(folder / "z.parquet").load()
    pd.DataFrame({"image": [{"a": 1}], "label": [1]}).to_parquet(folder / "y.parquet")
    with pytest.raises(HitNetError, match="must hold text or numbers; it holds dict"):
        open_data(folder / "y.parquet").load()
