from parts.timing import best_of


def test_contestants_take_turns_and_the_warm_up_does_not_count():
    asked, times = [], {"a": iter([0.1, 3.0, 2.0]), "b": iter([9.0, 4.0, 5.0])}

    def contestant(name):
        def run():
            asked.append(name)
            return next(times[name])

        return run

    assert best_of({name: contestant(name) for name in times}, 2) == {"a": 2.0, "b": 4.0}
    assert asked == ["a", "b"] * 3
