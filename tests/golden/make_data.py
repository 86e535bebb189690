#!/usr/bin/env python3
"""Writes small data sets of random numbers for the goldens into a folder: make_data.py FOLDER.

Below FOLDER/data and FOLDER/framework are stand-ins for the data that the configs in configs/ read.
Every run writes the same bytes. Only Python's standard library is needed.
"""
import os
import struct
import sys
import zlib

state = 1


def draw(n):
    """Returns the next pseudo-random integer in [0, n), from the constants of Numerical Recipes."""
    global state
    state = (state * 1664525 + 1013904223) % 2**32
    return (state >> 8) % n


def write(path, data):
    os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
    with open(path, 'wb') as file:
        file.write(data)


def idx(values, *shape):
    return struct.pack('>HBB', 0, 8, len(shape)) + struct.pack('>%dI' % len(shape), *shape) + bytes(values)


def pixels(count, label):
    """Returns pixels whose brightness depends on the label."""
    return [min(255, 20 * label + draw(60)) for _ in range(count)]


def mnist(folder='mnist', training=128):
    for name, count in (('train', training), ('t10k', 32)):
        labels = [i % 10 for i in range(count)]
        images = [p for label in labels for p in pixels(28 * 28, label)]
        write('%s/%s-images-idx3-ubyte' % (folder, name), idx(images, count, 28, 28))
        write('%s/%s-labels-idx1-ubyte' % (folder, name), idx(labels, count))


def cifar():
    for name in ['data_batch_%d' % i for i in range(1, 6)] + ['test_batch']:
        rows = [bytes([i % 10] + pixels(3 * 32 * 32, i % 10)) for i in range(20)]
        write('cifar/%s.bin' % name, b''.join(rows))


def png(width, height, rows):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return (b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) +
            chunk(b'IDAT', zlib.compress(b''.join(b'\0' + bytes(r) for r in rows), 9)) + chunk(b'IEND', b''))


def images():
    for label, name in enumerate(('dark', 'bright')):
        for i in range(24):
            rows = [pixels(3 * 8, 8 * label) for _ in range(8)]
            write('images/%s/%02d.png' % (name, i), png(8, 8, rows))


def tables():
    points, flags, inputs, targets = ['a,b,y'], ['a,b,flag'], [], []
    for _ in range(80):
        a, b = draw(1000) / 100, draw(1000) / 100
        points.append('%.2f,%.2f,%.3f' % (a, b, 2 * a - b + draw(100) / 100))
        flags.append('%.2f,%.2f,%d' % (a, b, a > b))
        inputs += [a, b]
        targets.append(int(a > b))
    write('points.csv', ('\n'.join(points) + '\n').encode())
    write('flags.csv', ('\n'.join(flags) + '\n').encode())
    write('x.npy', npy("'<f4'", '(80, 2)', struct.pack('<160f', *inputs)))
    write('y.npy', npy("'<i8'", '(80,)', struct.pack('<80q', *targets)))


def npy(kind, shape, data):
    head = "{'descr': %s, 'fortran_order': False, 'shape': %s, }" % (kind, shape)
    head += ' ' * (63 - (10 + len(head)) % 64) + '\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + data


def shipped_tables():
    flowers = ['sepal_length,sepal_width,petal_length,petal_width,species']
    for i in range(150):
        kind = i % 3
        values = [(40 + 10 * kind + draw(20)) / 10 for _ in range(4)]
        flowers.append(','.join('%.1f' % v for v in values) + ',' + ('setosa', 'versicolor', 'virginica')[kind])
    write('data/iris.csv', lines(flowers))
    houses = ['longitude,latitude,housing_median_age,total_rooms,total_bedrooms,population,households,median_income,'
              'median_house_value,ocean_proximity']
    places = ('INLAND', '<1H OCEAN', 'NEAR BAY', 'NEAR OCEAN', 'ISLAND')
    for i in range(2000):
        income, rooms, place = draw(1500) / 100, 500 + draw(4000), draw(5)
        bedrooms = '' if i % 97 == 5 else '%d' % (rooms // 5)
        houses.append('%.2f,%.2f,%d,%d,%s,%d,%d,%.4f,%d,%s' % (
            -124 + draw(1000) / 100, 32 + draw(1000) / 100, 1 + draw(52), rooms, bedrooms, 300 + draw(3000),
            rooms // 6, income, 20000 + 25000 * income + 8000 * place + draw(20000), places[place]))
    write('data/california-housing.csv', lines(houses))
    for name, count in (('tra', 1024), ('tes', 128)):
        rows = [','.join(str(min(16, i % 10 + draw(8))) for _ in range(64)) + ',%d' % (i % 10) for i in range(count)]
        write('data/optdigits.' + name, lines(rows))


def counts_and_labels():
    counts, labels = ['a,b,count'], ['a,b,first,second']
    for _ in range(80):
        a, b = draw(1000) / 100, draw(1000) / 100
        counts.append('%.2f,%.2f,%d' % (a, b, (a + draw(300) / 100) // 2))
        labels.append('%.2f,%.2f,%s,%s' % (a, b, 'yes' if a > b else 'no', 'yes' if a + b > 9 else 'no'))
    write('counts.csv', lines(counts))
    write('labels.csv', lines(labels))


def reviews():
    kinds = {'good': ('good', 'great', 'warm'), 'bad': ('bad', 'poor', 'dull')}
    rows = ['review,kind']
    for i in range(120):
        kind = ('good', 'bad')[i % 2]
        words = [('the', 'film', 'was', 'and', 'with', 'music')[draw(6)] for _ in range(2 + draw(12))]
        words.insert(draw(len(words)), kinds[kind][draw(3)])
        rows.append('%s.,%s' % (' '.join(words), kind))
    write('reviews.csv', lines(rows))


def lines(rows):
    return ('\n'.join(rows) + '\n').encode()


def shipped_texts():
    letters = 'abcdefghijklmnopqrstuvwxyz'
    names = [''.join(letters[draw(26)] for _ in range(3 + draw(12))) for _ in range(2000)]
    write('data/names.txt', lines(names))
    speech = [' '.join(names[draw(200)] for _ in range(4 + draw(6))) for _ in range(1200)]
    write('data/tinyshakespeare/input.txt', lines(speech))
    for i in range(3):
        code = ['int f%d(int x) { return x * %d + %d; }' % (j, draw(100), draw(100)) for j in range(200)]
        write('framework/part%d.cpp' % i, lines(code))


def words():
    letters = 'abcdefghijklmnopqrstuvwxyz '
    # Each letter is mostly followed by the next one, so that there is something to learn.
    text, at = [], 0
    for _ in range(4000):
        at = (at + 1) % 27 if draw(4) else draw(27)
        text.append(letters[at])
    write('words.txt', ''.join(text).encode())


def series():
    rows = ['date,store,promo,sales']
    for day in range(90):
        for store in range(2):
            promo = draw(5) == 0
            sales = (store + 1) * (100 + 20 * (day % 7) + day + 40 * promo + draw(20))
            rows.append('2024-%02d-%02d,%s,%d,%d' % (1 + day // 28, 1 + day % 28, 'ab'[store], promo, sales))
    write('series.csv', lines(rows))


def parts_of_pictures():
    for part, count in (('train', 8), ('test', 2)):
        for label in range(10):
            for i in range(count):
                rows = [pixels(3 * 32, label) for _ in range(32)]
                write('cifar10/%s/class%d/%02d.png' % (part, label, i), png(32, 32, rows))


def volumes():
    """Volumes of 4 x 4 x 4 voxels, whose class is the place of a bright plane."""
    voxels, places = [], []
    for i in range(96):
        places.append(i % 4)
        voxels += [(100 * (plane == i % 4) + draw(100)) / 100 for plane in range(4) for _ in range(16)]
    write('volumes.npy', npy("'<f4'", '(96, 1, 4, 4, 4)', struct.pack('<6144f', *voxels)))
    write('planes.npy', npy("'<i8'", '(96,)', struct.pack('<96q', *places)))


os.makedirs(sys.argv[1], exist_ok=True)
os.chdir(sys.argv[1])
for part in (mnist, cifar, images, tables, words, shipped_tables, shipped_texts):
    part()
mnist('data/mnist', 512)
# Parts that were added later draw last, or restore the state, so that the numbers of the others stay.
before = state
counts_and_labels()
state = before
series()
state = before
reviews()
state = before
parts_of_pictures()
state = before
volumes()
