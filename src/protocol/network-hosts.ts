/** Parses hosts for a network policy and its proxy. Each host has exactly one accepted spelling. */

/** `text` of an IPv6 address has no brackets. An IPv4 address embedded in an IPv6 address becomes the IPv4 address. */
export interface Host {
  readonly kind: 'name' | 'address';
  readonly text: string;
}

export interface NetworkTarget {
  readonly host: Host;
  readonly port: number;
}

/** What one entry of an allow-list means. Without a port: 80 and 443. */
export interface AllowedHost {
  readonly kind: 'name' | 'wildcard' | 'address';
  /** For a wildcard: the part after `*.`. */
  readonly host: string;
  readonly port?: number;
}

const LONGEST_NAME = 253;
const LABEL = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/;
const DOTTED = /^\d{1,3}(?:\.\d{1,3}){3}$/;
const MAPPED = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/;

/** Undefined if the text is not a host, or is an address in an unusual spelling (`0x7f.1`, `127.1`). */
export function parseHost(text: string): Host | undefined {
  if (text.startsWith('[') && text.endsWith(']')) return readIpv6(text.slice(1, -1));
  const name = text.endsWith('.') ? text.slice(0, -1) : text;
  if (name === '' || text.length > 4 * LONGEST_NAME || /[^\p{L}\p{M}\p{N}._-]/u.test(name)) return undefined;
  const host = hostnameOf(name);
  if (host === undefined || host.length > LONGEST_NAME) return undefined;
  // URLs accept many spellings of an address. Other programs interpret some of them differently.
  if (DOTTED.test(host)) return host === name ? { kind: 'address', text: host } : undefined;
  return host.split('.').every((label) => LABEL.test(label)) ? { kind: 'name', text: host } : undefined;
}

/** Parses `host:port`, or only `host` if `usualPort` is given. */
export function parseTarget(authority: string, usualPort?: number): NetworkTarget | undefined {
  const [, name = '', digits] = /^(\[[^[\]]*\]|[^:[\]]*)(?::([1-9]\d{0,4}))?$/.exec(authority) ?? [];
  const host = parseHost(name);
  const port = digits === undefined ? usualPort : Number(digits);
  return host && port !== undefined && port <= 65_535 ? { host, port } : undefined;
}

/** Parses `example.org`, `*.example.org`, `example.org:8443`, `10.0.0.5:5432`, `::1` and `[::1]:80`; else undefined. */
export function parseAllowedHost(text: string): AllowedHost | undefined {
  const wildcard = text.startsWith('*.');
  const bare = /^[0-9a-f.]*:[0-9a-f.]*:[0-9a-f:.]*$/i.test(text) ? `[${text}]` : text;
  const target = parseTarget(wildcard ? text.slice(2) : bare, 0);
  if (!target) return undefined;
  const { host, port } = target;
  // A wildcard cannot cover a whole top-level domain.
  if (wildcard && (host.kind === 'address' || !host.text.includes('.'))) return undefined;
  return { kind: wildcard ? 'wildcard' : host.kind, host: host.text, port: port === 0 ? undefined : port };
}

/** The normalized spelling of an entry. */
export function formatAllowedHost({ kind, host, port }: AllowedHost): string {
  const name = kind === 'wildcard' ? `*.${host}` : host;
  if (port === undefined) return name;
  return `${name.includes(':') ? `[${name}]` : name}:${port}`;
}

function readIpv6(text: string): Host | undefined {
  if (!/^[0-9a-f:.]{2,45}$/i.test(text)) return undefined;
  const host = hostnameOf(`[${text}]`)?.slice(1, -1);
  if (host === undefined) return undefined;
  const mapped = MAPPED.exec(host);
  if (!mapped) return { kind: 'address', text: host };
  const [high = 0, low = 0] = mapped.slice(1).map((word) => Number.parseInt(word, 16));
  return { kind: 'address', text: [high >> 8, high & 255, low >> 8, low & 255].join('.') };
}

/** The host in lower-case ASCII; undefined if a URL cannot contain it. */
function hostnameOf(host: string): string | undefined {
  const url = `http://${host}/`;
  return URL.canParse(url) ? new URL(url).hostname : undefined;
}
