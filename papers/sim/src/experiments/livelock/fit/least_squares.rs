//! Least squares by Levenberg and Marquardt's method, for residuals from a simulation: [`minimise`].
//!
//! ```text
//!   (JᵀJ + λ diag JᵀJ) δ = −Jᵀr        λ falls after a step that helps, and rises after one that does not
//! ```
//!
//! A simulated rate is a count of packets, so its derivative is a difference over a step that is large
//! compared with one packet; each variable has its own step. Most variables move few residuals, and only
//! these are evaluated. A variable that moves none stays at its start.

/// The bounds of a variable, and the step over which its effect is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Variable {
    pub(super) begin: f64,
    pub(super) least: f64,
    pub(super) most: f64,
    pub(super) step: f64,
}

/// The function to minimise: the sum of squares of the returned values.
pub(super) trait Residuals {
    /// The residuals at `at`. Those that `moved`, one of the variables, cannot change may be copied from `before`.
    /// `None` ends the search.
    fn at(&mut self, at: &[f64], moved: Option<(usize, &[f64])>) -> Option<Vec<f64>>;
}

/// The outcome of a search.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Minimum {
    pub(super) at: Vec<f64>,
    /// The standard error of each; none for a variable without an effect of its own.
    pub(super) errors: Vec<Option<f64>>,
}

/// Searches from the start of the variables, for at most `iterations`; `None` if it was stopped.
pub(super) fn minimise(
    variables: &[Variable],
    iterations: u64,
    residuals: &mut impl Residuals,
) -> Option<Minimum> {
    let mut at: Vec<f64> = variables.iter().map(|variable| variable.begin).collect();
    let mut found = residuals.at(&at, None)?;
    let mut damping = FIRST_DAMPING;
    let mut last = None;
    for _ in 0..iterations {
        let jacobian = jacobian(variables, &at, &found, residuals)?;
        let normal = last.insert(Normal::from_jacobian(&jacobian, &found));
        let before = squares(&found);
        let mut better = None;
        for _ in 0..TRIES {
            let moved = normal.step(damping).map(|step| clamped(variables, &at, &step));
            if let Some(moved) = moved.filter(|moved| *moved != at) {
                let tried = residuals.at(&moved, None)?;
                if squares(&tried) < before {
                    better = Some((moved, tried));
                    damping /= DAMPING;
                    break;
                }
            }
            damping *= DAMPING;
        }
        let Some(better) = better else { break };
        (at, found) = better;
        if squares(&found) > before * (1.0 - WORTH_IT) {
            break;
        }
    }
    let (at, found) = polished(variables, at, found, residuals)?;
    let errors = last.map_or_else(|| vec![None; at.len()], |normal| normal.errors(variables, &found));
    Some(Minimum { at, errors })
}

/// Continues one variable at a time with ever smaller steps: a count of packets has edges that a derivative
/// does not show.
fn polished(
    variables: &[Variable],
    mut at: Vec<f64>,
    mut found: Vec<f64>,
    residuals: &mut impl Residuals,
) -> Option<(Vec<f64>, Vec<f64>)> {
    for part in POLISH {
        for (index, variable) in variables.iter().enumerate() {
            for direction in [part, -part] {
                let mut moved = at.clone();
                moved[index] = (at[index] + direction * variable.step).clamp(variable.least, variable.most);
                let tried = residuals.at(&moved, Some((index, &found)))?;
                if squares(&tried) < squares(&found) {
                    (at, found) = (moved, tried);
                    break;
                }
            }
        }
    }
    Some((at, found))
}

/// A column for each variable: the change of the residuals for one step.
fn jacobian(
    variables: &[Variable],
    at: &[f64],
    found: &[f64],
    residuals: &mut impl Residuals,
) -> Option<Vec<Vec<f64>>> {
    let column = |(index, variable): (usize, &Variable)| {
        let up = at[index] + variable.step <= variable.most;
        let step = if up { variable.step } else { -variable.step };
        let mut moved = at.to_vec();
        moved[index] += step;
        let changed = residuals.at(&moved, Some((index, found)))?;
        let sign = step.signum();
        Some(changed.iter().zip(found).map(|(changed, found)| sign * (changed - found)).collect())
    };
    variables.iter().enumerate().map(column).collect()
}

/// The normal equations, in steps of the variables.
struct Normal {
    /// JᵀJ.
    matrix: Vec<Vec<f64>>,
    /// Jᵀr.
    gradient: Vec<f64>,
}

impl Normal {
    fn from_jacobian(jacobian: &[Vec<f64>], found: &[f64]) -> Self {
        let product = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        let row = |one: &Vec<f64>| jacobian.iter().map(|other| product(one, other)).collect();
        Normal {
            matrix: jacobian.iter().map(row).collect(),
            gradient: jacobian.iter().map(|column| product(column, found)).collect(),
        }
    }

    fn step(&self, damping: f64) -> Option<Vec<f64>> {
        let factor = Cholesky::from_matrix(self.damped(damping))?;
        Some(factor.solve(&self.gradient).iter().map(|step| -step).collect())
    }

    /// A variable that moves nothing has a one in the diagonal, so that it stays.
    fn damped(&self, damping: f64) -> Vec<Vec<f64>> {
        let mut matrix = self.matrix.clone();
        for (index, row) in matrix.iter_mut().enumerate() {
            row[index] = if row[index] > 0.0 { row[index] * (1.0 + damping) } else { 1.0 };
        }
        matrix
    }

    /// From the inverse of JᵀJ and the residual variance.
    fn errors(&self, variables: &[Variable], found: &[f64]) -> Vec<Option<f64>> {
        let moving = (0..variables.len()).filter(|&index| self.matrix[index][index] > 0.0).count();
        let free = found.len().saturating_sub(moving).max(1);
        let variance = squares(found) / free as f64;
        let Some(factor) = Cholesky::from_matrix(self.damped(0.0)) else {
            return vec![None; variables.len()];
        };
        let error = |(index, variable): (usize, &Variable)| {
            let mut unit = vec![0.0; variables.len()];
            unit[index] = 1.0;
            let spread = factor.solve(&unit)[index] * variance;
            (self.matrix[index][index] > 0.0 && spread >= 0.0).then(|| spread.sqrt() * variable.step)
        };
        variables.iter().enumerate().map(error).collect()
    }
}

/// The lower triangle of a symmetric matrix's root.
struct Cholesky(Vec<Vec<f64>>);

impl Cholesky {
    /// None of a matrix that is not positive definite.
    fn from_matrix(mut matrix: Vec<Vec<f64>>) -> Option<Self> {
        for row in 0..matrix.len() {
            for column in 0..=row {
                let known: f64 = (0..column).map(|at| matrix[row][at] * matrix[column][at]).sum();
                let rest = matrix[row][column] - known;
                matrix[row][column] = if row > column {
                    rest / matrix[column][column]
                } else if rest > 0.0 {
                    rest.sqrt()
                } else {
                    return None;
                };
            }
        }
        Some(Cholesky(matrix))
    }

    fn solve(&self, right: &[f64]) -> Vec<f64> {
        let lower = &self.0;
        let mut solved = right.to_vec();
        for row in 0..lower.len() {
            let known: f64 = (0..row).map(|at| lower[row][at] * solved[at]).sum();
            solved[row] = (solved[row] - known) / lower[row][row];
        }
        for row in (0..lower.len()).rev() {
            let known: f64 = (row + 1..lower.len()).map(|at| lower[at][row] * solved[at]).sum();
            solved[row] = (solved[row] - known) / lower[row][row];
        }
        solved
    }
}

/// A step of at most [`REACH`] of each variable's own, within its bounds.
fn clamped(variables: &[Variable], at: &[f64], steps: &[f64]) -> Vec<f64> {
    let moved = |((variable, at), step): ((&Variable, &f64), &f64)| {
        let reach = step.clamp(-REACH, REACH) * variable.step;
        (at + reach).clamp(variable.least, variable.most)
    };
    variables.iter().zip(at).zip(steps).map(moved).collect()
}

fn squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|residual| residual * residual).sum()
}

const FIRST_DAMPING: f64 = 0.01;
const DAMPING: f64 = 5.0;
/// Steps tried with one Jacobian.
const TRIES: u32 = 4;
/// In a variable's own steps.
const REACH: f64 = 8.0;
/// Fractions of its step by which each variable is moved at the end.
const POLISH: [f64; 4] = [0.5, 0.5, 0.25, 0.25];
/// The search ends when the sum of squares falls by a smaller share than this.
const WORTH_IT: f64 = 0.002;

#[cfg(test)]
mod tests {
    use super::*;

    struct Line<'a>(&'a [(f64, f64)]);

    /// y = a x + b, and a third that moves nothing.
    impl Residuals for Line<'_> {
        fn at(&mut self, at: &[f64], _: Option<(usize, &[f64])>) -> Option<Vec<f64>> {
            Some(self.0.iter().map(|(x, y)| at[0] * x + at[1] - y).collect())
        }
    }

    fn variable(begin: f64) -> Variable {
        Variable { begin, least: -1_000.0, most: 1_000.0, step: 0.5 }
    }

    #[test]
    fn a_line_is_found_with_its_errors() {
        // By hand: the residuals' squares are 0.108, of two degrees of freedom.
        let mut points = Line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0), (3.0, 7.6)]);
        let found = minimise(&[variable(0.0), variable(10.0), variable(7.0)], 50, &mut points).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() < 0.01;
        assert!(close(found.at[0], 2.18) && close(found.at[1], 0.88), "{found:?}");
        assert_eq!(found.at[2], 7.0, "what moves nothing stays");
        // Of the slope: √(s² ∕ Σ(x − x̄)²).
        let error = found.errors[0].unwrap();
        assert!(close(error, (0.108f64 / 2.0 / 5.0).sqrt()), "{error}");
        assert_eq!(found.errors[2], None);
    }

    #[test]
    fn bounds_are_kept() {
        let mut points = Line(&[(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]);
        let low = Variable { most: 1.5, ..variable(0.0) };
        let found = minimise(&[low, variable(0.0)], 50, &mut points).unwrap();
        assert_eq!(found.at[0], 1.5, "{found:?}");
    }

    /// y = a exp(b x), in whole numbers, as counts are.
    struct Counts;

    impl Residuals for Counts {
        fn at(&mut self, at: &[f64], _: Option<(usize, &[f64])>) -> Option<Vec<f64>> {
            let count = |x: f64| (at[0] * (at[1] * x).exp()).round() - (200.0 * (0.5 * x).exp()).round();
            Some((0..8).map(|x| count(f64::from(x))).collect())
        }
    }

    #[test]
    fn a_curve_of_counts_is_found() {
        let variables = [(80.0, 10.0), (0.3, 0.02)].map(|(begin, step)| Variable { step, ..variable(begin) });
        let found = minimise(&variables, 50, &mut Counts).unwrap();
        assert!((found.at[0] - 200.0).abs() < 2.0 && (found.at[1] - 0.5).abs() < 0.005, "{found:?}");
    }

    #[test]
    fn whoever_asks_no_more_gets_nothing() {
        struct Never;
        impl Residuals for Never {
            fn at(&mut self, _: &[f64], _: Option<(usize, &[f64])>) -> Option<Vec<f64>> {
                None
            }
        }
        assert_eq!(minimise(&[variable(0.0)], 5, &mut Never), None);
    }
}
