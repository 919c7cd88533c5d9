// Figures as people read them.

export const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
export const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumSignificantDigits: 3 });
export const percent = new Intl.NumberFormat("en-GB", { style: "percent", maximumFractionDigits: 1 });

export function duration(us) {
  if (us < 1_000) return `${us} µs`;
  if (us < 1_000_000) return `${(us / 1e3).toPrecision(us < 1e5 ? 2 : 3)} ms`;
  const s = us / 1e6;
  if (s < 60) return `${s.toFixed(s < 10 ? 1 : 0)} s`;
  if (s < 3_600) return `${Math.floor(s / 60)} min ${Math.floor(s % 60)} s`;
  if (s < 86_400) return `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3_600)} h`;
}

export function bytes(count) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (count >= 1_000 && unit < units.length - 1) { count /= 1_000; unit += 1; }
  return `${count < 10 && unit ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

export const rate = (perSecond) => `${perSecond && perSecond < 10 ? perSecond.toFixed(1) : short.format(perSecond)}/s`;

export const plural = (count, one, many = `${one}s`) => `${whole.format(count)} ${count === 1 ? one : many}`;

export const fullness = (share) => (share >= 0.9 ? "bad" : share >= 0.5 ? "warn" : null);
// An empty queue keeps its level for the next pack: the level is coloured only while something waits.
export const levelTone = ({ level, items }) => (!items || !level ? null : level >= 3 ? "bad" : "warn");
