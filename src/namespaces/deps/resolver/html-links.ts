/** The links of a page in HTML: as much of HTML as an index uses. */

export interface Link {
  readonly url: URL;
  readonly text: string;
  readonly attributes: ReadonlyMap<string, string>;
}

const TAG = /<(a|base)\s([^>]*)>([^<]*)/gi;
const ATTRIBUTE = /([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/gi;
const ENTITIES: Readonly<Record<string, string>> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" };

export function linksIn(html: string, address: URL): Link[] {
  const links: Link[] = [];
  let base = address;
  // A > within quotes does not end a tag: the index writes `data-requires-python=">=3.9"` at times.
  for (const [, tag, rest = '', text = ''] of withQuotesHidden(html).matchAll(TAG)) {
    const attributes = attributesIn(rest);
    const href = attributes.get('href');
    if (href === undefined || !URL.canParse(href, base.href)) continue;
    const url = new URL(href, base);
    if (tag?.toLowerCase() === 'base') base = url;
    else links.push({ url, text: plain(text).trim(), attributes });
  }
  return links;
}

function withQuotesHidden(html: string): string {
  return html.replace(/=\s*(?:"[^"]*"|'[^']*')/g, (quoted) => quoted.replaceAll('>', '&gt;').replaceAll('<', '&lt;'));
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
