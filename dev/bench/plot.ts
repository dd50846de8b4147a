/** Draws a small plot as SVG that is readable on a light and a dark page. Pure. */

export interface Plot {
  /** Also the name of the file. */
  readonly name: string;
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

const [width, height] = [640, 300];
const margin = { left: 64, right: 16, top: 36, bottom: 44 };

export function toSvg({ title, x, y, points }: Plot): string {
  const [mostX, mostY] = [niceAbove(points.map(([at]) => at)), niceAbove(points.map(([, value]) => value))];
  const toX = (value: number) => margin.left + (value / mostX) * (width - margin.left - margin.right);
  const toY = (value: number) => height - margin.bottom - (value / mostY) * (height - margin.top - margin.bottom);
  const steps = [0, 0.25, 0.5, 0.75, 1];
  const text = (at: readonly [number, number], words: string, anchor = "middle", more = "") =>
    `<text x="${round(at[0])}" y="${round(at[1])}" text-anchor="${anchor}"${more}>${escape(words)}</text>`;
  const lines = steps.flatMap((step) => [
    `<line x1="${margin.left}" x2="${width - margin.right}" y1="${round(toY(step * mostY))}" y2="${round(toY(step * mostY))}" stroke="#8884"/>`,
    text([margin.left - 8, toY(step * mostY) + 4], round(step * mostY), "end"),
    text([toX(step * mostX), height - margin.bottom + 18], round(step * mostX)),
  ]);
  const path = points.map(([px, py]) => `${round(toX(px))},${round(toY(py))}`).join(" ");
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" role="img" font-family="sans-serif" font-size="12" fill="#808080">`,
    `<title>${escape(title)}</title>`,
    text([margin.left, 20], title, "start", ' font-size="14"'),
    ...lines,
    text([width - margin.right, height - 8], x, "end"),
    text([margin.left - 8, margin.top - 6], y, "end"),
    `<polyline points="${path}" fill="none" stroke="#3b82f6" stroke-width="2"/>`,
    ...points.map(([px, py]) => `<circle cx="${round(toX(px))}" cy="${round(toY(py))}" r="3" fill="#3b82f6"/>`),
    "</svg>\n",
  ].join("\n");
}

/** The next number above that is 1, 2, 4 or 8 times a power of ten. */
function niceAbove(values: readonly number[]): number {
  const most = Math.max(1, ...values);
  const power = 10 ** Math.floor(Math.log10(most));
  return ([1, 2, 4, 8, 10].find((factor) => factor * power >= most) ?? 10) * power;
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

function escape(text: string): string {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
}
