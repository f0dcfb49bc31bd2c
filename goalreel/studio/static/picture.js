// Pictures that a person brings: from a file, the clipboard, a drop, or the webcam. Each becomes
// {data, width, height, name}: a data URL of at most `limits.max_pixels` pixels and MAX_BYTES bytes.

export class Unreadable extends Error {}

const KEPT = ["image/png", "image/jpeg"];
const MAX_BYTES = 12 * 2 ** 20;
const QUALITY = 0.95;

// Reads a picture, and scales it down in the browser if it is larger than the server takes.
export async function read(blob, limits) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob);
  } catch {
    throw new Unreadable(`${blob.name || "That"} is no picture that this browser can read.`);
  }
  const { width, height } = bitmap;
  const fits = KEPT.includes(blob.type) && width * height <= limits.max_pixels && blob.size <= MAX_BYTES;
  const picture = fits ? { data: await dataUrl(blob), width, height } : await drawn(bitmap, limits);
  bitmap.close();
  const scaled = picture.width < width;
  return { ...picture, name: blob.name ?? "picture", note: scaled ? `made smaller: ${width} × ${height} is more than the server takes` : "" };
}

// Draws a bitmap or a video onto a canvas; as PNG if that is small enough, else as JPEG, ever smaller.
async function drawn(source, limits) {
  const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
  let scale = Math.min(1, Math.sqrt(limits.max_pixels / (width * height)));
  for (;;) {
    const canvas = document.createElement("canvas");
    canvas.width = Math.max(1, Math.floor(width * scale));
    canvas.height = Math.max(1, Math.floor(height * scale));
    canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
    for (const type of KEPT) {
      const blob = await new Promise((done) => canvas.toBlob(done, type, QUALITY));
      if (blob && blob.size <= MAX_BYTES) {
        return { data: await dataUrl(blob), width: canvas.width, height: canvas.height };
      }
    }
    scale *= 0.7;
  }
}

function dataUrl(blob) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result);
    reader.onerror = () => failed(new Unreadable("The picture cannot be read."));
    reader.readAsDataURL(blob);
  });
}

// The first picture of a drop or of the clipboard; null where there is none.
export const pictureOf = (transfer) => [...(transfer?.files ?? [])].find(({ type }) => type.startsWith("image/")) ?? null;

// The camera of this computer: its live picture, until it is stopped.
export class Webcam {
  static async open() {
    if (!navigator.mediaDevices) throw new Unreadable("A browser gives its camera to pages on this machine or behind https only.");
    try {
      return new Webcam(await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" } }));
    } catch (error) {
      throw new Unreadable(
        error.name === "NotAllowedError" ? "The browser does not let this page see a camera." : "No camera was found.",
      );
    }
  }

  constructor(stream) {
    this.stream = stream;
  }

  async take(video, limits) {
    const picture = await drawn(video, limits);
    return { ...picture, name: "webcam", note: "" };
  }

  stop() {
    for (const track of this.stream.getTracks()) track.stop();
  }
}
