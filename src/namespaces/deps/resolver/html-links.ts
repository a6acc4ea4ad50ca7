/** The links of a page in HTML: as much of HTML as an index uses. */

export interface Link {
  readonly url: URL;
  readonly text: string;
  readonly attributes: ReadonlyMap<string, string>;
}

/** A > within quotes does not end a tag. Every part has a bound, so that no page is read twice over. */
const TAG = /<(a|base)(\s(?:[^"'<>]|"[^"]{0,4096}"|'[^']{0,4096}'){0,8192})>([^<]{0,1024})/gi;
const ATTRIBUTE = /([a-z-]+)(?:\s{0,8}=\s{0,8}(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/gi;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

export function linksIn(html: string, address: URL): Link[] {
  const links: Link[] = [];
  let base = address;
  for (const [, tag, rest = '', text = ''] of html.matchAll(TAG)) {
    const attributes = attributesIn(rest);
    const href = attributes.get('href');
    if (href === undefined || !URL.canParse(href, base.href)) continue;
    const url = new URL(href, base);
    if (tag?.toLowerCase() === 'base') base = url;
    else links.push({ url, text: plain(text).trim(), attributes });
  }
  return links;
}

function attributesIn(text: string): Map<string, string> {
  const found = text.matchAll(ATTRIBUTE);
  return new Map(
    Iterator.from(found).map(([, name = '', double, single, bare]) => [
      name.toLowerCase(),
      plain(double ?? single ?? bare ?? ''),
    ]),
  );
}

function plain(text: string): string {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    const code = hex === undefined ? Number(decimal) : Number.parseInt(hex, 16);
    if (name !== undefined) return ENTITIES[name.toLowerCase()] ?? whole;
    return code <= 0x10ffff ? String.fromCodePoint(code) : whole;
  });
}
