import unittest

from compare import arithmetic


class SteadyRate(unittest.TestCase):
    def test_leaves_out_the_first_and_the_last_slice(self):
        self.assertEqual(arithmetic.steady_rate([5, 100, 120, 110, 9000]), 1100)

    def test_of_two_slices_is_their_average(self):
        self.assertEqual(arithmetic.steady_rate([10, 30]), 200)

    def test_of_nothing_is_nothing(self):
        self.assertEqual(arithmetic.steady_rate([]), 0)


class Spread(unittest.TestCase):
    def test_is_the_median_between_the_extremes(self):
        self.assertEqual(arithmetic.spread([3, 1, None, 9]),
                         {"median": 3, "low": 1, "high": 9, "runs": 3})

    def test_of_failed_runs_only_is_none(self):
        self.assertIsNone(arithmetic.spread([None]))


class PerMillion(unittest.TestCase):
    def test_is_none_without_messages(self):
        self.assertIsNone(arithmetic.per_million(1.0, 0))

    def test_scales(self):
        self.assertEqual(arithmetic.per_million(2.0, 4_000_000), 0.5)


def received(messages, lost=0):
    return {"messages": messages, "lost": lost, "corrupt": 1, "reordered": 2}


class Account(unittest.TestCase):
    def test_counts_what_the_receiver_missed(self):
        self.assertEqual(arithmetic.account(received(7, lost=3), [{"accepted": 10}]),
                         {"lost": 3, "corrupt": 1, "reordered": 2})

    def test_counts_a_tail_that_the_receiver_can_not_know_of(self):
        sends = [{"accepted": 6}, {"accepted": 6}]
        self.assertEqual(arithmetic.account(received(7), sends)["lost"], 5)

    def test_asks_only_the_receiver_when_a_sender_was_killed(self):
        self.assertEqual(arithmetic.account(received(7), [None, {"accepted": 60}])["lost"], 0)

    def test_is_not_negative_when_messages_came_twice(self):
        self.assertEqual(arithmetic.account(received(8), [{"accepted": 6}])["lost"], 0)


class FitCost(unittest.TestCase):
    def test_finds_the_line_that_made_the_points(self):
        points = [(size, 20e-9 + 0.1e-9 * size) for size in (64, 1024, 16384, 1 << 20)]
        fit = arithmetic.fit_cost(points)
        self.assertAlmostEqual(fit["a"], 20e-9, delta=1e-12)
        self.assertAlmostEqual(fit["b"], 0.1e-9, delta=1e-14)
        self.assertLess(fit["worst"], 1e-6)

    def test_small_messages_count_as_much_as_large_ones(self):
        # Ten per cent too slow at 1 MiB must not move the cost of a small message by much.
        points = [(64, 26.4e-9), (128, 32.8e-9), (1024, 122.4e-9), (1 << 20, 115.4e-6)]
        self.assertAlmostEqual(arithmetic.fit_cost(points)["a"], 20e-9, delta=3e-9)

    def test_no_message_costs_less_than_nothing(self):
        fit = arithmetic.fit_cost([(100, 1e-9), (1000, 1e-7)])
        self.assertEqual(fit["a"], 0)
        self.assertGreater(fit["b"], 0)

    def test_needs_two_sizes(self):
        self.assertIsNone(arithmetic.fit_cost([(64, 1e-9), (64, 2e-9), (128, 0)]))

    def test_predicts_a_rate(self):
        self.assertAlmostEqual(arithmetic.rate_of({"a": 1e-6, "b": 1e-9}, 1000), 500_000)


class Shortfall(unittest.TestCase):
    def test_is_the_missing_share(self):
        self.assertAlmostEqual(arithmetic.shortfall(15, 20), 0.25)

    def test_of_more_than_enough_is_zero(self):
        self.assertEqual(arithmetic.shortfall(25, 20), 0)


if __name__ == "__main__":
    unittest.main()
