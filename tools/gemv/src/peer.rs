//! ggml, in a program that answers lines: `tools/xtask/src/peer/gemv.cpp` has what they say.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use yardstick::weights::Matrix;

/// The program, waiting for a line.
pub struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts it, on the core that this thread is pinned to.
    pub fn start(mut command: Command) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = command.spawn();
        let mut child =
            child.map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (input, output) = pipes.expect("both were asked for");
        Ok(Self {
            child,
            input,
            output: BufReader::new(output),
        })
    }

    /// Hands over a matrix, to be held `copies` times over in each kind of buffer, and a vector;
    /// returns the kinds' names.
    pub fn load(
        &mut self,
        matrix: &Matrix,
        x: &[f32],
        copies: usize,
    ) -> Result<Vec<String>, String> {
        let (format, shape) = (matrix.format.name(), matrix.shape);
        let (rows, columns) = (shape.rows, shape.columns);
        self.say(&format!("matrix {format} {rows} {columns} {copies}"))?;
        self.write(&matrix.gguf)?;
        let x: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.write(&x)?;
        let names: Vec<String> = self.line()?.split(' ').map(str::to_owned).collect();
        Ok(names)
    }

    /// The CPU seconds that the products of all copies take in a kind of buffer, by its place
    /// among the names.
    pub fn time(&mut self, buffer: usize) -> Result<f64, String> {
        self.say(&format!("time {buffer}"))?;
        let line = self.line()?;
        let seconds = line.parse();
        seconds.map_err(|_| format!("the peer says `{line}` for a time"))
    }

    /// The last product in a kind of buffer.
    pub fn product(&mut self, buffer: usize, rows: usize) -> Result<Vec<f32>, String> {
        self.say(&format!("product {buffer}"))?;
        let mut bytes = vec![0; 4 * rows];
        let result = self.output.read_exact(&mut bytes);
        result.map_err(|error| format!("the peer's product: {error}"))?;
        let (floats, _) = bytes.as_chunks();
        Ok(floats
            .iter()
            .map(|&float| f32::from_le_bytes(float))
            .collect())
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        self.write(format!("{line}\n").as_bytes())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), String> {
        let result = self.input.write_all(bytes);
        result.map_err(|error| format!("the peer does not listen: {error}"))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) => Err("the peer has ended".to_owned()),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(format!("the peer: {error}")),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It knows no line to end with, and has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels_asm::format::WeightFormat;
    use yardstick::shape::small;
    use yardstick::weights::vector;

    fn scripted(script: &str) -> Peer {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        Peer::start(shell).unwrap()
    }

    #[test]
    fn lines_and_bytes_reach_the_peer_and_come_back() {
        let (shape, format) = (small()[1], WeightFormat::Q4_0);
        let matrix = Matrix::random(format, shape);
        let bytes = matrix.gguf.len() + 4 * shape.columns;
        // It answers with what it was told, so that a changed line is seen.
        let script = format!(
            "read -r line; echo CPU $line $(head -c {bytes} | wc -c)\n\
             read -r line; [ \"$line\" = 'time 1' ] || exit; echo 0.25\n\
             read -r line; [ \"$line\" = 'product 1' ] || exit; printf '\\0\\0\\200\\077'\n\
             read -r line; echo soon"
        );
        let mut peer = scripted(&script);
        let names = peer.load(&matrix, &vector(shape.columns), 3).unwrap();
        let bytes = bytes.to_string();
        assert_eq!(names, ["CPU", "matrix", "Q4_0", "32", "5632", "3", &bytes]);
        assert_eq!(peer.time(1), Ok(0.25));
        assert_eq!(peer.product(1, 1), Ok(vec![1.0]));
        let error = peer.time(0).unwrap_err();
        assert_eq!(error, "the peer says `soon` for a time");
    }

    #[test]
    fn peer_that_ends_is_an_error() {
        let mut peer = scripted("read -r line");
        assert_eq!(peer.time(0).unwrap_err(), "the peer has ended");
    }
}
