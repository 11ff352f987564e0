/* check_logic.mjs - what the Explorer's page computes without drawing, against brute force and numbers
 * worked out by hand. `node check_logic.mjs FOLDER-WITH-THE-MODULES`; check_page.py runs the same in the
 * browser. */

export async function checkLogic(base)
{
    const load = name => import(`${base}/${name}.js`);
    const [F, G, S, T, M, C, D, A, L, I] = await Promise.all(['frontier', 'group', 'scene', 'state', 'format', 'csv',
        'differ', 'scales', 'fields', 'importance'].map(load));
    const wrong = [];
    let count = 0;
    const is = (what, got, wanted) => {
        count++;
        if (JSON.stringify(got) !== JSON.stringify(wanted))
            wrong.push(`${what}: ${JSON.stringify(got)} instead of ${JSON.stringify(wanted)}`);
    };
    const near = (what, got, wanted, allowed = 1e-9) => {
        count++;
        if (!(Math.abs(got - wanted) <= allowed * Math.max(1, Math.abs(wanted))))
            wrong.push(`${what}: ${got} instead of ${wanted}`);
    };
    let seed = 12345; /* Lehmer's generator */
    const random = n => {
        seed = seed * 48271 % 2147483647;
        return seed % n;
    };

    /* The frontier is what brute force says, with many ties, in both directions. */
    for (let round = 0; round < 300; round++) {
        const higher = round % 2 === 0;
        const points = Array.from({length: random(40)}, () => ({x: 1 + random(12), quality: random(9)}));
        const beats = (a, b) => a.x <= b.x && (higher ? a.quality >= b.quality : a.quality <= b.quality) &&
            (a.x < b.x || a.quality !== b.quality);
        is(`frontier of set ${round}`, F.frontierFlags(points, higher),
            points.map(p => !points.some(q => beats(q, p))));
        const front = F.frontierOf(points, higher);
        is(`frontier in order ${round}`, front.every((p, i) => i === 0 ||
            (p.x > front[i - 1].x && F.isBetter(p.quality, front[i - 1].quality, higher))), true);
    }

    /* Linear in ln x between points, never beyond them. Half way from 1 to 4 in logarithms is 2. */
    const front = [{x: 1, quality: 0.5}, {x: 4, quality: 0.7}, {x: 40, quality: 0.8}];
    near('x at 0.6', F.xAtQuality(front, 0.6, true).x, 2);
    is('x at 0.7', F.xAtQuality(front, 0.7, true), {x: 4, atMost: false});
    near('x at 0.75', F.xAtQuality(front, 0.75, true).x, 4 * Math.sqrt(10));
    is('better from the start', F.xAtQuality(front, 0.4, true), {x: 1, atMost: true});
    is('just the start', F.xAtQuality(front, 0.5, true), {x: 1, atMost: false});
    is('not reached', F.xAtQuality(front, 0.81, true), null);
    is('of nothing', F.xAtQuality([], 0.5, true), null);
    const losses = [{x: 1, quality: 3}, {x: 9, quality: 1}];
    near('loss 2', F.xAtQuality(losses, 2, false).x, 3);
    is('loss 0.9 not reached', F.xAtQuality(losses, 0.9, false), null);
    is('saving', F.savingOf(4, 10), {times: 2.5, percent: 60});
    is('staircase', F.staircase(front.slice(0, 2), 9), [{x: 1, quality: 0.5}, {x: 4, quality: 0.5},
        {x: 4, quality: 0.7}, {x: 9, quality: 0.7}]);

    /* The fit finds a and b again; with one x there is none. */
    const fit = F.fitLog([1, 2, 5, 11].map(x => ({x, quality: 0.3 + 0.07 * Math.log(x)})));
    near('fit a', fit.a, 0.3);
    near('fit b', fit.b, 0.07);
    is('no fit', F.fitLog([{x: 2, quality: 1}, {x: 2, quality: 3}]), null);

    /* Two steps: ln(10/1) x 1 + ln(10/e) x 2. */
    near('hypervolume', F.hypervolume([{x: 1, quality: 1}, {x: Math.E, quality: 3}], {x: 10, quality: 0}, true),
        Math.log(10) + 2 * (Math.log(10) - 1));
    const past = F.frontierHistory([{x: 5, quality: 1}, {x: 6, quality: 0.5}, {x: 4, quality: 1},
        {x: 9, quality: 2}], true);
    is('who moved the frontier', past.moves, [0, 2, 3]);
    is('the area never shrinks', past.areas.every((a, i) => i === 0 || a >= past.areas[i - 1]), true);

    const three = [{n: 'a', time: 1, cost: 9, quality: 0.8}, {n: 'b', time: 5, cost: 2, quality: 0.9},
        {n: 'c', time: 3, cost: NaN, quality: 0.95}];
    const told = F.answers(three, {quality: 0.9, cost: 5, time: 2}, true);
    is('answers', [told.cheapest.n, told.fastest.n, told.bestForCost.n, told.bestForTime.n], ['b', 'c', 'b', 'a']);
    is('no answer', F.answers(three, {quality: 0.99, cost: null, time: 0.5}, true).bestForTime, null);

    /* Any state survives the address; the default one is the empty address; nonsense is not taken. */
    is('default address', T.queryOf(T.parseState('')), '');
    const said = 'dataset=a+b&compare=recipe&sortBy=costSameQuality&model=x&algorithms=mixup&algorithms=c%26d' +
        '&algorithmsMode=none&recipe=p&recipe=q&baseline=r-1&selected=s%2F2&x=linear&reverse=1&yMin=0.25&group=1&theme=light';
    is('address and back', T.queryOf(T.parseState(said)), said);
    const odd = T.parseState('sortBy=evil&yMin=abc&x=&model=all&theme=pink&nonsense=1&hardware=all&hardware=c7a');
    is('nonsense', [odd.sortBy, odd.yMin, odd.x, odd.model, odd.theme, odd.hardware],
        ['timeSameQuality', null, 'log', [], '', ['c7a']]);
    is('brush', T.parseBrush(T.brushText('epochs', 10, 2)), {field: 'epochs', low: 2, high: 10});
    is('no brush', T.parseBrush('epochs:a:2'), null);

    const methods = ['mixup', 'ema'];
    is('methods', ['any', 'all', 'none', 'only'].map(mode => [['mixup'], ['mixup', 'sam'], ['sam'], ['ema', 'mixup']]
        .map(wanted => Number(S.matchesMethods(methods, wanted, mode))).join('')), ['1101', '1001', '0010', '0001']);

    /* 1, 2, 3: mean 2, standard error 1/sqrt 3, t = 4.303. */
    const mean = G.meanOf([1, 2, 3]);
    near('mean', mean.mean, 2);
    near('interval', mean.half, 4.303 / Math.sqrt(3), 1e-6);
    is('one value has no interval', G.meanOf([7, NaN]), {n: 1, mean: 7, half: 0});
    near('t of 40', G.tQuantile(40), 2.021, 0.02);
    near('mean of ratios', G.ratioOf([0.5, 2]).mean, 1);

    checkScene({F, G, S, T, L, I, is, near});

    is('csv', C.toCsv([{key: 'a,b', of: r => r.a}, {key: 'c', of: r => r.c}], [{a: 'x"y', c: 1.5},
        {a: 'line\nbreak', c: NaN}]), '"a,b",c\r\n"x""y",1.5\r\n"line\nbreak",\r\n');
    const differ = D.differences([
        {name: 'p', model: 'm', seed: 1, settings: {'optimizer.lr': '0.1', same: '1'}, method_settings: []},
        {name: 'q', model: 'm', seed: 1, settings: {'optimizer.lr': '0.2', same: '1'},
            method_settings: [{name: 'mixup', settings: {alpha: 0.2}}]}]);
    is('differences', differ.map(d => [d.key, ...d.values]), [['name', 'p', 'q'],
        ['settings.optimizer.lr', '0.1', '0.2'], ['methods.mixup.alpha', '–', '0.2']]);

    is('times', [1622, 0.0123, 59.94, 27000, 90000, NaN].map(M.formatTime),
        ['27m02s', '12.3 ms', '59.9 s', '7h30m', '1d01h', '–']);
    is('costs', [14.766, 0.0123, 0.00017525, 1234.5, 0].map(M.formatCost),
        ['$14.77', '$0.0123', '$0.000175', '$1235', '$0']);
    is('quality', [M.formatQuality(0.7664, 'eval/accuracy'), M.formatQuality(0.7664, 'eval/cross_entropy')],
        ['76.64%', '0.7664']);
    is('ratios', [M.formatTimes(2.5, 'faster', 'slower', 'as fast'), M.formatTimes(0.5, 'faster', 'slower', 'as fast'),
        M.formatPercent(87, 'cheaper', 'dearer', 'as cheap'), M.formatPercent(-20, 'cheaper', 'dearer', 'as cheap')],
    ['2.5× faster', '2× slower', '87% cheaper', '20% dearer']);
    for (let round = 0; round < 200; round++) {
        const low = (1 + random(1000)) / 100;
        const high = low * (1.01 + random(100000) / 10);
        for (const ticks of [M.logTicks(low, high, 5, round % 2 === 0), M.linearTicks(low, high, 5, round % 2 === 0)])
            is(`ticks of ${low} to ${high}`, ticks.length < 14 && ticks.every((t, i) => t >= low * 0.999 &&
                t <= high * 1.001 && (i === 0 || t > ticks[i - 1])), true);
    }
    const scale = A.scaleOf(1, 100, 0, 200, true);
    near('log scale', scale.at(10), 100);
    near('and back', scale.back(scale.at(37)), 37);
    is('no reach', A.reachOf([NaN, -1], true, 0.1), null);
    return {count, wrong};

    /* ---- scenes ---- */

    function run(id, quality, seconds, more = {})
    {
        return {id, name: id, status: 'done', dataset: 'd', model: 'm', optimizer: 'sgd', methods: [], seed: 1,
            batch_size: 8, hardware: 'local', usd_per_hour: 3600, train_seconds: seconds, wall_seconds: 2 * seconds,
            usd: seconds, started: 1, estimated: false, threads: 1, precision: 'f32', scale_schedule_ratio: 1,
            metrics: quality === null ? {} : {'eval/accuracy': {final: quality, best: quality, higher_is_better: true}},
            ...more};
    }

    function checkScene(t)
    {
        const runs = [
            run('base', 0.8, 100),
            run('long', 0.9, 400, {scale_schedule_ratio: 4}),
            run('fast', 0.8, 25, {methods: ['mixup']}),
            run('fast2', 0.9, 100, {methods: ['mixup'], scale_schedule_ratio: 4}),
            run('broken', 0.99, 1, {status: 'failed'}),
            run('diverged', NaN, 5),
            run('nothing', null, 5),
            run('free', 0.7, 10, {usd: NaN, usd_per_hour: null, methods: ['ema']}),
            run('live', 0.95, 3, {status: 'running'}),
            run('other', 0.5, 3, {dataset: 'e'}),
        ];
        const of = query => t.S.sceneOf([...runs], t.T.parseState(query), [{name: 'c7a', usd_per_hour: 7200}]);
        const ids = list => list.map(d => (d.dot || d).run.id).sort();

        /* Failed runs and those without quality are counted, never plotted; without a price there is no cost. */
        const scene = of('');
        t.is('data set', scene.dataset, 'd');
        t.is('plotted', ids(scene.dots), ['base', 'fast', 'fast2', 'free', 'live', 'long']);
        t.is('not plotted', t.S.unplottedCounts(scene), {failed: 1, 'without quality': 2});
        t.is('time frontier', ids(scene.front.time), ['fast', 'fast2', 'free']);
        t.is('cost frontier', ids(scene.front.cost), ['fast', 'fast2']);
        t.is('a running run is not ranked', t.S.rankOf(scene, t.S.findDot(scene, 'live'), 'time'), null);
        t.is('rank', t.S.rankOf(scene, t.S.findDot(scene, 'fast'), 'time'), {rank: 2, of: 5});

        /* The best without methods is the baseline; with another baseline its quality counts. */
        t.is('baseline', [scene.baseline.run.id, scene.baselineChosen], ['long', false]);
        const fast = t.S.findDot(scene, 'fast');
        t.is('same quality', fast.same.time, {x: 100, atMost: false});
        t.is('not reached', t.S.findDot(scene, 'free').same.time, null);
        const other = of('baseline=base');
        t.is('chosen baseline', [other.baseline.run.id, other.baselineChosen], ['base', true]);
        t.is('time for its quality', t.S.findDot(other, 'fast2').same.time, {x: 25, atMost: false});
        t.near('baseline at 0.85', t.S.baselineAt(other, 0.85, 'time').x, 200);

        t.is('filter', ids(of('algorithms=mixup&algorithmsMode=none').dots), ['base', 'free', 'live', 'long']);
        t.is('status', ids(of('status=running').dots), ['live']);
        t.is('search', ids(of('search=fast+mixup').dots), ['fast', 'fast2']);
        t.is('brush', ids(of('brush=time:20:150').dots), ['base', 'fast', 'fast2']);
        t.is('sorted by cost', of('sortBy=cost').dots.map(d => d.run.id),
            ['live', 'fast', 'base', 'fast2', 'long', 'free']);
        t.is('sorted by quality', of('sortBy=quality&status=done').dots.map(d => d.run.id),
            ['fast2', 'long', 'fast', 'base', 'free']);

        /* On another instance twice the price; what was measured elsewhere is an estimate there. */
        const dear = t.S.findDot(of('price=c7a'), 'base');
        t.is('re-priced', [dear.cost, dear.estimatedCost, dear.estimated], [200, true, false]);
        t.is('wall clock', [t.S.findDot(of('time=wall'), 'base').time, t.S.findDot(of('time=wall'), 'base').cost],
            [200, 200]);

        const seeds = [run('a', 0.8, 10, {seed: 1, group: 'g'}), run('b', 0.9, 20, {seed: 2, group: 'g'}),
            run('c', 0.7, 5, {seed: 3, group: 'h'}), run('d', 0.7, 5, {seed: 4, group: 'g', status: 'failed'})];
        const grouped = t.S.sceneOf(seeds, t.T.parseState('group=1'), []);
        const g = t.S.findDot(grouped, 'b');
        t.is('groups', [grouped.dots.length, g.runs.length, g.time], [2, 2, 15]);
        t.near('mean quality', g.quality, 0.85);
        t.near('its interval', g.half.quality, 12.706 * 0.05, 1e-6);

        /* mixup needs a quarter of the time for 0.9, and the same quality at the same length. */
        const effect = t.G.methodEffects(scene.single.filter(d => d.done), true).find(e => e.method === 'mixup');
        t.is('pairs', [effect.families, effect.quality.n], [1, 2]);
        t.near('time ratio', effect.time.mean, 0.25);
        t.near('cost ratio', effect.cost.mean, 0.25);
        t.near('quality', effect.quality.mean, 0);

        /* Of another learning rate: no pair. */
        const apart = [run('a', 0.8, 10, {base: '1'}), run('b', 0.9, 10, {base: '2', methods: ['mixup']}),
            run('c', 0.9, 10, {base: '1', methods: ['ema']})];
        const told = t.G.methodEffects(t.S.sceneOf(apart, t.T.parseState(''), []).single, true);
        t.is('pairs share their settings', told.map(e => [e.method, e.families]), [['ema', 1], ['mixup', 0]]);

        /* Settings are fields; numbers where all values are. Half of what the runs differ in is the learning rate's. */
        const {L, I} = t;
        L.learnSettings({runs: ['a', 'b', 'c'], settings: [{key: 'optimizer.lr', values: ['0.1', '0.2'], of: [0, 1, -1]},
            {key: 'schedule', values: ['cosine', '2'], of: [1, 0, 0]}, {key: 'seed', values: ['9'], of: [0, 0, 0]}]});
        t.is('settings', L.settingFields().map(f => [f.key, f.kind, ...apart.map(r => f.print(f.of(r)))]),
            [['optimizer.lr', 'number', '0.1', '0.2', '–'], ['schedule', 'text', '2', 'cosine', 'cosine']]);
        t.is('of a run they do not know', L.fieldOf('schedule').of({id: 'z'}), '');
        t.is('colour by a setting', [...t.S.sceneOf(apart, t.T.parseState('compare=schedule'), []).colours.keys()],
            ['2', 'cosine']);
        t.is('all explained', I.shareExplained([1, 1, 3, 3], ['a', 'a', 'b', 'b']), 1);
        t.is('nothing explained', I.shareExplained([1, 3, 1, 3], ['a', 'a', 'b', 'b']), 0);
        t.near('part explained', I.shareExplained([1, 2, 3, 4], ['a', 'a', 'b', 'b']), 0.7);
        t.is('says nothing', [I.shareExplained([1, 2, 3], ['a', 'b', 'c']), I.shareExplained([1, 1, 1, 1], ['a', 'a', 'b', 'b'])],
            [NaN, NaN]);
        const six = [0, 1, 2, 3, 4, 5].map(i => run(`r${i}`, 0.5 + (i < 3 ? 0 : 0.1) + i / 1e4, 10,
            {methods: i < 3 ? [] : ['ema'], batch_size: 32 << (i % 2)}));
        const matters = I.importance(t.S.sceneOf(six, t.T.parseState(''), []).single);
        t.is('what matters', matters.map(e => [e.key, e.values, e.runs]), [['methods.ema', 2, 6], ['batch_size', 2, 6]]);
        t.is('how much', [matters[0].quality > 0.99, matters[1].quality, matters[0].time], [true, 0, NaN]);
        L.learnSettings({runs: [], settings: []});
        t.is('forgotten', L.fieldOf('schedule'), undefined);

        t.is('nothing at all', t.S.sceneOf([], t.T.parseState('selected=x&group=1&compare=model'), []).dots, []);
        t.is('colours stay', [...of('compare=methods&algorithms=ema').colours], [...of('compare=methods').colours]);
    }
}

if (typeof process !== 'undefined' && process.argv[1]?.endsWith('check_logic.mjs')) {
    const {pathToFileURL} = await import('node:url');
    const {count, wrong} = await checkLogic(pathToFileURL(process.argv[2]).href);
    wrong.forEach(w => console.log(`check_logic: ${w}`));
    console.log(`check_logic: ${count - wrong.length} of ${count} hold`);
    process.exit(wrong.length || count < 300 ? 1 : 0);
}
