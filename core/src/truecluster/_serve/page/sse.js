// Server-sent events, as section 9.2.6 of the HTML standard reads them; names and ids of events aren't used here.

/** The data of each event of a stream of bytes, which may be cut anywhere. */
export async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  const lines = splitter();
  let data = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return; // what isn't ended by an empty line is no event
      for (const line of lines(value)) {
        if (line === "") {
          if (data.length) yield data.join("\n");
          data = [];
        } else if (line === "data" || line.startsWith("data:")) {
          data.push(line.slice(5).replace(/^ /, ""));
        }
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // of a stream that is broken already
  }
}

/** A function from pieces of text to the lines that are whole by then. */
function splitter() {
  let rest = "", afterReturn = false;
  return (piece) => {
    const text = afterReturn && piece.startsWith("\n") ? piece.slice(1) : piece;
    afterReturn = piece.endsWith("\r");
    const lines = (rest + text).split(/\r\n|\n|\r/);
    rest = lines.pop();
    return lines;
  };
}
