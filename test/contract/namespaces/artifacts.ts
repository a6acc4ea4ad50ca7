/** Artifacts, as code in a kernel keeps them. */

import { describe, expect, it } from 'vitest';
import { lacks } from '../../support/kernels/unsupported.ts';
import { errorOf, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import type { Place } from './namespaces.ts';

export function namespaceArtifacts(place: Place): void {
  describe('artifacts in a kernel', () => {
    it('load as the types that were saved', async () => {
      const { session } = await openWith(place);
      const values = [
        '42',
        '"text \\ud800 ä"',
        '""',
        'b"\\x00\\xff"',
        'b""',
        'None',
        'True',
        '1.5',
        '[1, {"a": [None]}]',
        '{}',
        '10**40',
        'float("inf")',
      ];
      for (const value of values) {
        const code = `artifacts.save("v", ${value}); back = artifacts.load("v"); [back == ${value}, type(back) is type(${value})]`;
        expect([value, await pyValue(session, code)]).toEqual([value, [true, true]]);
      }
    });

    it('can be frames and figures if pandas and matplotlib are used', async () => {
      const { session } = await openWith(place);
      if (await lacks(session, 'native code')) return;
      const code = `
import numpy as np, pandas as pd
import matplotlib.pyplot as plt
frames = [
    pd.DataFrame({"n": [1, 2, 3], "f": [1.5, np.nan, -0.0], "s": ["x", None, "z"], "b": [True, False, True],
                  "t": pd.date_range("2020", periods=3, tz="Europe/Berlin"), "d": pd.to_timedelta([1, 2, None], "s"),
                  "c": pd.Categorical(["u", "v", "u"], ordered=True), "i": pd.array([1, None, 3], dtype="Int64")}),
    pd.DataFrame(np.arange(6).reshape(3, 2), index=pd.Index(["a", "b", "c"], name="key"), columns=["x", 7]),
    pd.DataFrame({("a", 1): [1.0], ("a", 2): [2.0]}, index=pd.MultiIndex.from_tuples([("p", 1)], names=["k", None])),
    pd.DataFrame(), pd.DataFrame({"empty": pd.Series([], dtype="float32")}),
]
for frame in frames:
    artifacts.save("frame", frame)
    pd.testing.assert_frame_equal(frame, artifacts.load("frame"))
series = pd.Series([1, 2], name="s")
artifacts.save("series", series)
pd.testing.assert_series_equal(series, artifacts.load("series"))
figure = plt.figure(); plt.plot([1, 2]); plt.close(figure)
info = artifacts.save("figure", figure)
[info["type"], info["mediaType"], artifacts.load("figure")[:4], artifacts.get("frame")["type"]]`;
      expect(await pyValue(session, code)).toEqual([
        'figure',
        'image/png',
        new Uint8Array([0x89, 0x50, 0x4e, 0x47]),
        'frame',
      ]);
    });

    it('can be files', async () => {
      const { session } = await openWith(place);
      const code = `
from pathlib import Path
Path("in.bin").write_bytes(bytes(range(256)) * 100)
artifacts.save("a", Path("in.bin"))
with open("in.bin", "rb") as file: artifacts.save("b", file)
artifacts.load("a", path="out.bin")
[artifacts.get("a")["type"], Path("out.bin").read_bytes() == Path("in.bin").read_bytes() == artifacts.load("b")]`;
      expect(await pyValue(session, code)).toEqual(['file', true]);
    });

    it('close files that were saved by path, and leave the code’s own files as they were', async () => {
      const { session } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      const code = `
import os
from pathlib import Path
def count(): return len(os.listdir("/proc/self/fd"))
Path("in.bin").write_bytes(b"abc")
before, after = count(), []
for name in ("a", "../x"):
    try: artifacts.save(name, Path("in.bin"))
    except ValueError as error: refused = error  # holds the frames, and what is in them
    after.append(count() - before)
file = open("in.bin", "rb")
artifacts.save("b", file)
[after, file.closed]`;
      expect(await pyValue(session, code)).toEqual([[0, 0], false]);
    });

    it('have metadata, keep their creation time, and can be deleted', async () => {
      const { session, storage } = await openWith(place);
      await pyValue(session, 'artifacts.save("report", "one", description="First", metadata={"tags": ["a"]})');
      const first = await storage.artifacts.get('report');
      await pyValue(session, 'artifacts.save("report", "two words")');
      const other = await openWith(place, { storage, agentKey: 'other' });
      expect(await pyValue(other.session, 'artifacts.get("report")')).toMatchObject({
        name: 'report',
        type: 'text',
        size: 9,
        createdAt: first?.createdAt,
        description: '',
      });
      expect(first).toMatchObject({ description: 'First', metadata: { tags: ['a'] } });
      expect(await pyValue(session, '[artifacts.exists("report"), [one["name"] for one in artifacts.list()]]')).toEqual(
        [true, ['report']],
      );
      await pyValue(session, 'artifacts.delete("report")');
      expect(await pyValue(session, '[artifacts.exists("report"), artifacts.list()]')).toEqual([false, []]);
      expect(await errorOf(session, 'artifacts.delete("report")')).toMatchObject({ name: 'CellaLookupError' });
    });

    it('are refused if they cannot be stored, and the previous one stays', async () => {
      const { session } = await openWith(place, { artifactLimitMb: 1 });
      await pyValue(session, 'artifacts.save("kept", "old")');
      for (const bad of ['object()', '{1: 2}', '[{"a": {1, 2}}]', '(x for x in "a")']) {
        expect(await errorOf(session, `artifacts.save("kept", ${bad})`)).toMatchObject({ name: 'TypeError' });
      }
      for (const name of ['../x', '', `x${'y'.repeat(299)}`, 'a/b', '.hidden', 'nul\\0', ' ', 'new\\nline']) {
        expect(await errorOf(session, `artifacts.save("${name}", 1)`)).toMatchObject({ name: 'CellaValueError' });
      }
      expect((await errorOf(session, 'artifacts.save("kept", b"x" * 2_000_000)')).message).toContain('1');
      expect(await pyValue(session, 'artifacts.load("kept")')).toBe('old');
      expect(
        await pyValue(session, 'artifacts.save("größe 表 🎈", 1); [one["name"] for one in artifacts.list()]'),
      ).toEqual(expect.arrayContaining(['größe 表 🎈']));
    });

    // What a storage does with much, test/faults/storage/namespaces.test.ts shows of each.
    if (!place.short) hundredsOfMegabytes(place);
  });
}

function hundredsOfMegabytes(place: Place): void {
  it('of hundreds of megabytes are sent in pieces', async () => {
    const { session } = await openWith(place);
    const before = process.memoryUsage().rss;
    let most = before;
    const timer = setInterval(() => {
      most = Math.max(most, process.memoryUsage().rss);
    }, 5);
    const code = `
import hashlib
with open("big.bin", "wb") as file:
    for n in range(250): file.write(bytes([n]) * 1_000_000)
with open("big.bin", "rb") as file: info = artifacts.save("big", file)
artifacts.load("big", path="back.bin")
back = hashlib.sha256()
with open("back.bin", "rb") as file:
    while piece := file.read(1 << 20): back.update(piece)
[info["size"], back.hexdigest() == info["sha256"]]`;
    expect(await pyValue(session, code)).toEqual([250_000_000, true]);
    clearInterval(timer);
    // What waits to be collected is counted too; all of it at once would be more.
    expect(most - before).toBeLessThan(200_000_000);
  });
}
