//! Offered against delivered, as text: a plateau and a collapse are told apart at a glance.

/// A contender's points: offered and delivered packets a second. Each is drawn with its letter.
pub(super) fn text(curves: &[(char, &[(f64, f64)])]) -> String {
    let most = |of: fn(&(f64, f64)) -> f64| {
        curves.iter().flat_map(|(_, points)| points.iter()).map(of).fold(1.0, f64::max)
    };
    let (right, top) = (most(|point| point.0), most(|point| point.1));
    let mut rows = vec![[' '; WIDTH]; HEIGHT];
    let place = |value: f64, most: f64, cells: usize| {
        ((value / most * (cells - 1) as f64).round() as usize).min(cells - 1)
    };
    // Where all would be that is offered.
    for (column, offered) in (0..WIDTH).map(|column| (column, right * column as f64 / (WIDTH - 1) as f64)) {
        if offered <= top {
            rows[place(offered, top, HEIGHT)][column] = '.';
        }
    }
    for (letter, points) in curves {
        for &(offered, delivered) in *points {
            rows[place(delivered, top, HEIGHT)][place(offered, right, WIDTH)] = *letter;
        }
    }
    let mut text = format!("{top:.0} delivered\n");
    for row in rows.iter().rev() {
        let cells: String = row.iter().collect();
        text += &format!("|{}\n", cells.trim_end());
    }
    text + &format!("+{}\n0{right:>width$.0} offered\n", "-".repeat(WIDTH), width = WIDTH - 8)
}

const WIDTH: usize = 72;
const HEIGHT: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_is_drawn() {
        let text = text(&[('a', &[(0.0, 0.0), (50.0, 50.0), (500.0, 50.0)]), ('b', &[(500.0, 5.0)])]);
        assert_eq!((text.matches('a').count(), text.matches('b').count()), (3, 1), "{text}");
        assert!(text.starts_with("50 delivered\n") && text.contains("500 offered"), "{text}");
    }
}
